package capacity

import (
	"fmt"
	"math"
)

// Alternatives are what a workload can be compared with.
var Alternatives = []string{"plain", "spanner", "dynamodb"}

var priced = map[string][]func(Workload, Inputs) Side{
	"plain": {plain}, "spanner": {spanner}, "dynamodb": {dynamoOnDemand, dynamoProvisioned},
}

// Comparison is what a workload costs with this library and elsewhere, at list prices.
type Comparison struct {
	Workload Workload `json:"workload"`
	Sides    []Side   `json:"sides"`            // ours first
	Beyond   []Limit  `json:"beyond,omitempty"` // limits of ours that more nodes do not lift
}

// Side is one of them. Nil is what it does not have, and a cost whose price is unknown.
type Side struct {
	Name       string   `json:"name"`
	USDMillion *float64 `json:"usdAMillionChanges"`
	Nodes      *float64 `json:"nodes" none:"–"`
	WriteUnits *float64 `json:"writeUnits" unit:"/s" none:"–"`
	ReadUnits  *float64 `json:"readUnits" unit:"/s" none:"–"`
	Stored     float64  `json:"stored" unit:"B"`
	Money      Bill     `json:"usdAMonth"`
	Sequence   Sequence `json:"inSequence"`
	Even       Even     `json:"breakEven"`
	GivesUp    string   `json:"givesUp,omitempty" table:"-"`
}

// Bill is that of a month.
type Bill struct {
	All     *float64 `json:"all"`
	Compute *float64 `json:"compute"` // nodes or units
	Storage *float64 `json:"storage"`
	Backups *float64 `json:"backups"`
	Other   *float64 `json:"other"` // the oracle's record and servers, and what clients compute
}

// Sequence is the requests for which a read-modify-write transaction waits one after the other, if
// all its reads go together.
type Sequence struct {
	Requests float64 `json:"requests"`
	Takes    []Takes `json:"takes"`
}

// Takes is how long it takes if each request takes so long, in milliseconds.
type Takes struct {
	Each float64 `json:"eachMs"`
	All  float64 `json:"allMs"`
}

// Even says where the cheaper one changes for the last time as all rates and rows grow, and as rows
// grow. Ours has none.
type Even struct {
	Changes *Turn `json:"changesASecond"`
	Bytes   *Turn `json:"bytesARow"`
}

// Turn is from where on a side is the cheaper one. Below it the other is.
type Turn struct {
	Cheaper string   `json:"cheaper"`
	From    *float64 `json:"from,omitempty"` // nil: it is at every amount
}

// Compare computes what a workload costs with this library and with each alternative.
func Compare(w Workload, in Inputs, against []string, requestMs []float64) (*Comparison, error) {
	p, err := NewPlan(w, in)
	if err != nil {
		return nil, err
	}
	c := &Comparison{Workload: w, Sides: []Side{ours(p, in)}, Beyond: p.Limits.Beyond()}
	for _, name := range against {
		for _, price := range priced[name] {
			s := price(w, in)
			s.Even = Even{
				Changes: turn(s.Name, 1, 1e7, func(n float64) float64 { return difference(w.Times(n/w.Changes), in, price) }),
				Bytes: turn(s.Name, 10, 400_000, func(n float64) float64 {
					sized := w
					sized.RowBytes = n
					return difference(sized, in, price)
				}),
			}
			c.Sides = append(c.Sides, s)
		}
	}
	for i := range c.Sides {
		s := &c.Sides[i]
		s.USDMillion = known(s.Money.all() / (w.Changes * in.get("hours") * 3600 / 1e6))
		for _, ms := range requestMs {
			s.Sequence.Takes = append(s.Sequence.Takes, Takes{Each: ms, All: ms * s.Sequence.Requests})
		}
	}
	return c, nil
}

// known is nil for what is not a number, or infinite.
func known(n float64) *float64 {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return nil
	}
	return &n
}

func or(n *float64, otherwise float64) float64 {
	if n == nil {
		return otherwise
	}
	return *n
}

func newBill(compute, storage, backups, other float64) Bill {
	return Bill{known(compute + storage + backups + other), known(compute), known(storage), known(backups), known(other)}
}

func (b Bill) all() float64 { return or(b.All, math.NaN()) }

// ours is a plan, and the servers of the oracle.
func ours(p *Plan, in Inputs) Side {
	m, nan := p.Money, math.NaN()
	servers := in.get("oracleServers") * in.get("processorPrice") * in.get("hours")
	return Side{
		Name: "ours", Nodes: known(p.Nodes.Needed), Stored: p.Storage.All, Sequence: Sequence{Requests: p.Workload.sequence()},
		Money: newBill(or(m.Nodes, nan), or(m.Storage, nan), or(m.TableBackups, nan)+or(m.PercolatorBackup, 0),
			or(m.OracleRecord, nan)+or(m.Processors, nan)+servers),
	}
}

// sequence: the start timestamp, the reads, all prewrites beside the entry of the journal, the
// commit timestamp, the commit of the primary's row. The other rows follow after the answer.
func (w Workload) sequence() float64 {
	if w.Blind { // its start timestamp was asked for ahead
		return 3
	}
	return 3 + w.readThenWrite()
}

// readThenWrite is what any store needs: one request to commit, and one before it for the reads.
func (w Workload) readThenWrite() float64 { return 1 + min(math.Ceil(w.ReadsPerChange), 1) }

// access is rows that are read or written in a second, of which some belong together.
type access struct{ rows, together float64 }

func (w Workload) reading() []access {
	return []access{
		{w.Changes * w.ReadsPerChange, w.ReadsPerChange * w.RowsPerTransaction},
		{w.Changes * w.Observers * (1 + w.ObserverReads), 1 + w.ObserverReads},
		{w.Reads, w.RowsPerSnapshot},
	}
}

// writing is the rows with values; done those that remember runs, and are small.
func (w Workload) writing(in Inputs) (valued []access, done access) {
	together := w.ObserverWrites + in.get("doneRows")
	runs := w.Changes * w.Observers
	return []access{{w.Changes, w.RowsPerTransaction}, {runs * w.ObserverWrites, together}}, access{runs * in.get("doneRows"), together}
}

func (w Workload) rowsRead() (n float64) {
	for _, a := range w.reading() {
		n += a.rows
	}
	return n
}

// plain writes the same rows by MutateRow, and nothing to remember runs.
func plain(w Workload, in Inputs) Side {
	row := w.RowBytes + w.Columns*(w.KeyBytes+timestampBytes)
	stored := w.Rows*row + w.valued()*row*in.get("deletedDays")*24*60*60
	load := (w.rowsRead()/in.get("readRows") + w.valued()/in.get("writeRows")) * in.size(w) / in.get("cpuShare")
	nodes := math.Ceil(max(1, load, stored/in.get("nodeStorage")/in.get("storageShare")))
	return Side{
		Name: "plain", Nodes: &nodes, Stored: stored, Sequence: Sequence{Requests: w.readThenWrite()},
		Money:   newBill(nodes*in.get("hours")*in.get("nodePrice"), stored/gib*in.get("storagePrice"), w.TableBackups*stored/gib*in.get("tableBackupPrice"), 0),
		GivesUp: "atomic changes of several rows, snapshots, conflict detection, observers",
	}
}

// spanner is a regional instance. Below a node its capacity comes in tenths.
func spanner(w Workload, in Inputs) Side {
	_, done := w.writing(in)
	row := w.RowBytes + w.KeyBytes
	stored := w.Rows*row + w.valued()*row*w.Retention.Seconds()
	load := (w.rowsRead()*in.size(w)/in.get("spannerReads") + (w.valued()*in.size(w)+done.rows)/in.get("spannerWrites")) / in.get("spannerCpuShare")
	nodes := max(load, stored/in.get("spannerNodeStorage"))
	if nodes = math.Ceil(10*nodes) / 10; nodes > 1 {
		nodes = math.Ceil(nodes)
	}
	nodes = max(nodes, 0.1)
	return Side{
		Name: "spanner", Nodes: &nodes, Stored: stored, Sequence: Sequence{Requests: w.readThenWrite()},
		Money:   newBill(nodes*10*in.get("hours")*in.get("spannerPrice"), stored/gib*in.get("spannerStoragePrice"), w.TableBackups*stored/gib*in.get("spannerBackupPrice"), 0),
		GivesUp: "Bigtable; observers (it has queues, in a dearer edition). It is more consistent",
	}
}

func dynamoOnDemand(w Workload, in Inputs) Side {
	month := in.get("hours") * 3600 / 1e6
	return dynamo(w, in, "dynamodb on demand", month*in.get("dynamoWritePrice"), month*in.get("dynamoReadPrice"))
}

func dynamoProvisioned(w Workload, in Inputs) Side {
	month := in.get("hours") / in.get("dynamoUseShare")
	return dynamo(w, in, "dynamodb provisioned", month*in.get("dynamoWriteHourPrice"), month*in.get("dynamoReadHourPrice"))
}

// dynamo has prices of a unit a second for a month.
func dynamo(w Workload, in Inputs, name string, write, read float64) Side {
	item := w.RowBytes + w.KeyBytes
	units := func(a access, bytes, unit float64) float64 {
		n := a.rows * max(1, bytes/unit)
		if a.together > 1 {
			n *= in.get("dynamoTransaction")
		}
		return n
	}
	valued, done := w.writing(in)
	written, reads := units(done, 0, 1), 0.0
	for _, a := range valued {
		written += units(a, item, in.get("dynamoWriteBytes"))
	}
	for _, a := range w.reading() {
		reads += units(a, item, in.get("dynamoReadBytes"))
	}
	stored := w.Rows * (item + in.get("dynamoItemBytes"))
	most := in.get("dynamoItems")
	givesUp := fmt.Sprintf("Bigtable; snapshots of the past or of over %v items; observers (it has streams)", most)
	if n := max(w.RowsPerTransaction, done.together); n > most {
		givesUp += fmt.Sprintf(". It refuses transactions of %v", n)
	}
	return Side{
		Name: name, WriteUnits: &written, ReadUnits: &reads, Stored: stored, Sequence: Sequence{Requests: w.readThenWrite()},
		Money:   newBill(written*write+reads*read, stored/gib*in.get("dynamoStoragePrice"), w.TableBackups*stored/gib*in.get("dynamoBackupPrice"), 0),
		GivesUp: givesUp,
	}
}

// difference is by how much ours costs more.
func difference(w Workload, in Inputs, price func(Workload, Inputs) Side) float64 {
	p, err := NewPlan(w, in)
	if err != nil {
		return math.NaN() // there is no such workload
	}
	return ours(p, in).Money.all() - price(w, in).Money.all()
}

// turn looks for the last change of sign among ten amounts in each decade, and then for the place.
// Whole nodes make costs jump, so there may be others. What has no difference is passed over.
func turn(name string, least, most float64, difference func(float64) float64) *Turn {
	var below, above, last, before float64 // amounts around the last change; the newest one
	cheaper := ""
	for n := least; n < most*1.01; n *= math.Pow(10, 0.1) {
		d := difference(n)
		if math.IsNaN(d) {
			continue
		}
		if before*d < 0 {
			below, above = last, n
		}
		last, before, cheaper = n, d, "ours"
		if d > 0 {
			cheaper = name
		}
	}
	switch {
	case cheaper == "":
		return nil
	case above == 0:
		return &Turn{Cheaper: cheaper}
	}
	positive := difference(above) > 0
	for range 50 {
		middle := math.Sqrt(below * above)
		if (difference(middle) > 0) == positive {
			above = middle
		} else {
			below = middle
		}
	}
	return &Turn{Cheaper: cheaper, From: &above}
}
