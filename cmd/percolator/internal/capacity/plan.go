package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
)

// Plan is what a workload needs, part by part. Sizes are before compression. A tag names the unit
// of what is not simply a number.
type Plan struct {
	Workload Workload `json:"workload"`
	Nodes    Nodes    `json:"nodes"`
	Limits   Limits   `json:"limits"`
	Requests Requests `json:"requestsASecond"`
	Storage  Storage  `json:"storage"`
	Passes   Passes   `json:"passes"`
	Programs Programs `json:"programs"`
	Money    Money    `json:"usdAMonth"`
}

// Nodes are those of one cluster. Requests and passes share the CPU; storage needs them whatever
// they do.
type Nodes struct {
	Needed      float64 `json:"needed"`
	DecidedBy   string  `json:"decidedBy"` // requests, passes or storage
	ForRequests float64 `json:"forRequests"`
	ForPasses   float64 `json:"forPasses"`
	ForStorage  float64 `json:"forStorage"`
}

// Limits are those that more nodes do not lift.
type Limits struct {
	BindsFirst string  `json:"bindsFirst"` // the one of which most is used
	All        []Limit `json:"all"`
}

// Beyond are those that are exceeded.
func (l Limits) Beyond() (beyond []Limit) {
	for _, one := range l.All {
		if one.Used > 1 {
			beyond = append(beyond, one)
		}
	}
	return beyond
}

// Limit is one of them.
type Limit struct {
	Name string  `json:"name"`
	Used float64 `json:"used"` // 1: all of it
	// Changes a second that use it up, where use grows with the workload.
	Full   float64 `json:"full,omitempty"`
	Remedy string  `json:"remedy"`
}

// Storage is what Bigtable charges for and passes read, and what percolator backup keeps elsewhere.
type Storage struct {
	All         float64 `json:"all" unit:"B"`
	Live        float64 `json:"live" unit:"B"`
	OldVersions float64 `json:"oldVersions" unit:"B"` // of the retention and a cycle
	// Versions, locks and entries not yet compacted away, and what says that they are deleted.
	DeletedAtMost    float64 `json:"deletedAtMost" unit:"B"`
	Journal          float64 `json:"journal" unit:"B"` // entries that are not collected yet
	PercolatorBackup float64 `json:"percolatorBackup" unit:"B"`
}

// Passes read every stored byte. How often: 0 for never. The collector makes two a cycle, and the
// scanners make theirs, only where there is no journal; with one there are sweeps instead, and the
// collector reads the rows that changed.
type Passes struct {
	CollectorEvery  float64 `json:"collectorEvery" unit:"s"`
	Collector       float64 `json:"collector" unit:"B/s"`
	ScannersEvery   float64 `json:"scannersEvery" unit:"s"`
	Scanners        float64 `json:"scanners" unit:"B/s"`
	SweepsEvery     float64 `json:"sweepsEvery" unit:"s"`
	Sweeps          float64 `json:"sweeps" unit:"B/s"`
	BackupsEvery    float64 `json:"backupsEvery" unit:"s"`
	Backups         float64 `json:"backups" unit:"B/s"`
	CycleTakes      float64 `json:"cycleTakes" unit:"s"`
	RowsByJournal   float64 `json:"rowsByJournal" unit:"/s"` // which the collectors read
	RowsCollected   float64 `json:"rowsCollected" unit:"/s"` // which it writes
	JournalErased   float64 `json:"journalErased" unit:"/s"` // rows of the journal that it deletes
	VersionsAreKept float64 `json:"versionsAreKept" unit:"s"`
}

// Programs are clients, your own code apart.
type Programs struct {
	Processors float64 `json:"processors"`
	Network    float64 `json:"network" unit:"B/s"` // to and from Bigtable
}

// Money is nil where the price is unknown.
type Money struct {
	All              float64  `json:"allThatIsKnown"`
	Nodes            *float64 `json:"nodes"`
	Storage          *float64 `json:"storage"`
	TableBackups     *float64 `json:"tableBackups"`
	PercolatorBackup *float64 `json:"percolatorBackup"`
	OracleRecord     *float64 `json:"oracleRecord"`
	Processors       *float64 `json:"processors"`
}

const (
	timestampBytes = 8
	recordBytes    = 9
	gib            = 1 << 30

	// aroundEntry is what a row of the journal has beside entries: its key, column, timestamp, the
	// names of tables.
	aroundEntry = 80

	// lagging is how many retentions old percolator check lets what is not collected be.
	lagging = 2
)

// NewPlan computes what a workload needs. It refuses a workload that is none and inputs that lack a
// speed; prices may be missing, and the quota.
func NewPlan(w Workload, in Inputs) (*Plan, error) {
	if err := errors.Join(w.validate(), in.complete()); err != nil {
		return nil, err
	}
	if most := in.get("txnBytes"); w.RowsPerTransaction*w.RowBytes > most {
		return nil, fmt.Errorf("a transaction of %v rows has more than %.0f bytes", w.RowsPerTransaction, most)
	}
	w.CollectorInterval.Duration = cmp.Or(w.CollectorInterval.Duration, w.Retention.Duration/12)
	p := &Plan{Workload: w, Requests: w.Requests()}
	if !p.size(in) {
		return nil, errors.New("no number of nodes is enough for this workload")
	}
	p.limits(in)
	r := p.Requests
	p.Programs = Programs{
		Processors: r.Transactions*in.get("firstRow") + r.RowsMutated*in.get("nextRow") + r.RowsRead*in.get("readRow"),
		Network:    (w.valued()+r.RowsRead)*w.RowBytes + (r.CheckAndMutateRow+r.RowsMutated+r.RowsRead)*in.get("requestBytes"),
	}
	p.price(in)
	return p, nil
}

// size finds nodes and storage together: where there are many nodes, passes are quick and leave few
// old versions, so fewer nodes are needed. It reports whether there is such a number.
func (p *Plan) size(in Inputs) bool {
	const most = 1 << 40
	needed := sort.Search(most, func(n int) bool { return n > 0 && p.needs(in, n) <= float64(n) })
	return p.needs(in, needed) <= float64(needed)
}

// needs is how many nodes are needed where there are n.
func (p *Plan) needs(in Inputs, n int) float64 {
	p.store(in, float64(n))
	r, w := 1/in.get("readRows"), 1/in.get("writeRows")
	// Only where values travel does a larger row count as several.
	larger := in.size(p.Workload) - 1
	read := p.Requests.RowsRead*(1+larger) + p.Passes.RowsByJournal
	written := p.Requests.RowsMutated + p.Requests.JournalRows + p.Passes.RowsCollected + p.Passes.JournalErased + p.Workload.valued()*larger
	p.Nodes = Nodes{
		Needed: float64(n), DecidedBy: "requests",
		ForRequests: (read*r + p.Requests.CheckAndMutateRow*(r+w) + written*w) / in.get("cpuShare"),
		ForPasses:   (p.Passes.Collector + p.Passes.Scanners + p.Passes.Sweeps + p.Passes.Backups) / in.get("scanBytes") / in.get("cpuShare"),
		ForStorage:  p.Storage.All / in.get("nodeStorage") / in.get("storageShare"),
	}
	load := p.Nodes.ForRequests + p.Nodes.ForPasses
	switch {
	case p.Nodes.ForStorage >= load:
		p.Nodes.DecidedBy = "storage"
	case p.Nodes.ForPasses > p.Nodes.ForRequests:
		p.Nodes.DecidedBy = "passes"
	}
	return max(p.Nodes.ForStorage, load)
}

// store is what is stored, and passed over, where there are so many nodes.
func (p *Plan) store(in Inputs, nodes float64) {
	w := p.Workload
	cell := w.KeyBytes + timestampBytes // each cell of Bigtable has them
	row := w.RowBytes + w.Columns*(2*cell+recordBytes)
	ack, lock := cell+recordBytes, cell+w.KeyBytes+in.get("lockBytes")
	runs := w.Changes * w.Observers
	rows := w.valued()
	written := rows*row + runs*ack
	// Locks and notifications are erased.
	erased := (rows*w.Columns+runs)*lock + w.Changes*min(w.Observers, 1)*cell
	entries := w.journalBytes()
	deletions := w.Deletions(rows) // at most: a row may change again before it is collected

	live := w.Rows * (row + w.Observers*ack)
	deleted := (written + erased + entries + deletions.bytes(w)) * in.get("deletedDays") * 24 * 60 * 60
	// This is the first pass of a cycle.
	pass := (live + deleted + written*w.Retention.Seconds()) / (in.get("scanBytes") * nodes)
	cycle := in.get("drain") + pass + max(pass, w.Rows/w.CollectorRows)
	if !w.DisableJournal {
		cycle = p.cycleByJournal(in)
	}
	period := cycle + w.CollectorInterval.Seconds()
	kept := w.Retention.Seconds() + period
	all := live + deleted + (written+entries)*kept
	p.Storage = Storage{All: all, Live: live, OldVersions: written * kept, DeletedAtMost: deleted, Journal: entries * kept}
	p.Passes = Passes{
		BackupsEvery: w.BackupInterval.Seconds(), CycleTakes: cycle, VersionsAreKept: kept,
		// These are different rows, if all change equally often.
		RowsCollected: w.Rows / period * -math.Expm1(-rows*period/w.Rows), JournalErased: deletions.JournalRows,
	}
	if w.DisableJournal {
		p.Passes.CollectorEvery, p.Passes.ScannersEvery = period/2, w.ScanInterval.Seconds()
	} else {
		p.Passes.SweepsEvery, p.Passes.RowsByJournal = w.SweepInterval.Seconds(), w.named()*in.get("openRows")+w.read(in)
	}
	every := func(seconds float64) float64 { return min(all/seconds, all*seconds) } // 0 for never
	p.Passes.Collector, p.Passes.Scanners = every(p.Passes.CollectorEvery), every(p.Passes.ScannersEvery)
	p.Passes.Sweeps, p.Passes.Backups = every(p.Passes.SweepsEvery), every(p.Passes.BackupsEvery)
	if p.Passes.BackupsEvery > 0 {
		p.Storage.PercolatorBackup = w.Backups * w.Rows * (w.RowBytes + w.Columns*cell)
	}
}

// journalBytes is what a second adds to the journal.
func (w Workload) journalBytes() float64 {
	if w.DisableJournal {
		return 0
	}
	return w.Requests().JournalRows*aroundEntry + w.Changes/w.RowsPerTransaction*w.entryBytes(w.RowsPerTransaction) +
		w.Changes*w.Observers/w.RunsTogether*w.entryBytes(w.RunsTogether*(1+w.ObserverWrites))
}

// cycleByJournal is how long a cycle takes that reads what changed in the period before it. A
// collector that cannot keep up has no such period: then it is that of the pace which limits names.
func (p *Plan) cycleByJournal(in Inputs) float64 {
	busy := min(p.paceByJournal(in)/p.Workload.CollectorRows, 1) * p.room(in)
	pause := p.Workload.CollectorInterval.Seconds()
	return (in.get("drain")+pause)/(1-busy) - pause
}

// paceByJournal is the rows a second at which each collector has to read so that a period is no
// longer than what two retentions leave. More collectors than shares find nothing to do.
func (p *Plan) paceByJournal(in Inputs) float64 {
	w := p.Workload
	return w.named() * (1 + in.get("openRows")) / min(w.Collectors, in.get("collectorShares")) / p.room(in)
}

// read is how many rows the collectors read once the watermark is published: those that are
// observed, for the change and for each run, and the others of which no client has told (J13).
func (w Workload) read(in Inputs) float64 {
	observed := w.Changes * (min(w.Observers, 1) + w.Observers)
	return observed + (w.named()-observed)*in.get("untoldRows")
}

// room is the share of the time for reading: the rest goes to drains, and pauses between cycles.
func (p *Plan) room(in Inputs) float64 {
	w := p.Workload
	return max(1-(in.get("drain")+w.CollectorInterval.Seconds())/((lagging-1)*w.Retention.Seconds()), 0.01)
}

func (p *Plan) limits(in Inputs) {
	w := p.Workload
	add := func(name string, used, full float64, remedy string) {
		p.Limits.All = append(p.Limits.All, Limit{name, used, full, remedy})
	}
	growing := func(name string, used float64, remedy string) {
		add(name, used, w.Changes/max(used, math.SmallestNonzeroFloat64), remedy)
	}
	stamps := p.Requests.Timestamps
	growing("oracle's speed", stamps/in.get("oracleRate"),
		"fewer transactions: more rows in each, observers that fold; a faster machine; instances, each with its oracle")
	growing("oracle's clock", stamps/in.get("oracleTicks"), "as for its speed, the machine apart")
	if w.DisableJournal {
		// What is left of two retentions for a pass at the collector's pace.
		pace := w.Rows / max((lagging-1)*w.Retention.Seconds()-w.CollectorInterval.Seconds()-in.get("drain"), 1)
		add("collector's pace", p.Passes.VersionsAreKept/(lagging*w.Retention.Seconds()), 0,
			fmt.Sprintf("RowsPerSecond %.0f in admin.CollectorConfig, or a longer retention", math.Ceil(pace)))
		growing("collector's speed", pace/in.get("collectorRate"), "a longer retention; measure yours; instances that divide the rows")
	} else {
		pace := p.paceByJournal(in)
		growing("collector's pace", pace/w.CollectorRows,
			fmt.Sprintf("RowsPerSecond %.0f in admin.CollectorConfig, or more workers that collect", math.Ceil(pace)))
		growing("collector's speed", pace/in.get("collectorRate"), "more workers that collect; measure yours; instances that divide the rows")
	}
	add("size of a row", (p.Storage.Live+p.Storage.OldVersions)/w.Rows/in.get("rowStorage"), 0,
		"smaller rows, a shorter retention, a faster collector")
	if quota := in.get("nodeQuota"); quota > 0 {
		growing("quota of nodes", p.Nodes.Needed/quota, "ask Google for more")
	}
	p.Limits.BindsFirst = slices.MaxFunc(p.Limits.All, func(a, b Limit) int { return cmp.Compare(a.Used, b.Used) }).Name
}

func (p *Plan) price(in Inputs) {
	cost := func(amount float64, price string) *float64 {
		sum := amount * in.get(price)
		switch {
		case amount == 0:
			sum = 0 // whatever the price
		case math.IsNaN(sum):
			return nil
		}
		p.Money.All += sum
		return &sum
	}
	hours, hundreds := in.get("hours"), 0.0 // of processing units
	if p.Workload.OracleRecord == "spanner" {
		hundreds = 1 // the least there is
	}
	p.Money.Nodes = cost(p.Nodes.Needed*hours, "nodePrice")
	p.Money.Storage = cost(p.Storage.All/gib, "storagePrice")
	p.Money.TableBackups = cost(p.Workload.TableBackups*p.Storage.All/gib, "tableBackupPrice")
	p.Money.PercolatorBackup = cost(p.Storage.PercolatorBackup/gib, "objectPrice")
	p.Money.OracleRecord = cost(hundreds*hours, "spannerPrice")
	p.Money.Processors = cost(p.Programs.Processors*hours, "processorPrice")
}

// Deletions are what tells Bigtable that something is gone. Each is a mutation, and each is stored,
// and paid for, until it is compacted away with what it deletes.
type Deletions struct {
	Cells       float64 // versions of a cell, one or a range of them
	JournalRows float64 // each by a mutation of its own
}

// Deletions is what the transactions and runs of a second send, and the collector that erases from
// so many rows.
func (w Workload) Deletions(collected float64) Deletions {
	runs := w.Changes * w.Observers
	rows := w.valued()
	locks := rows*w.Columns + runs
	notifications := w.Changes * min(w.Observers, 1)
	// Of a cell's older versions the records go in one range and the data in another, those of an
	// acknowledgment, which has no data, in one.
	ranges := 2 * w.Columns
	if rows > 0 {
		ranges += w.Observers * w.Changes / rows
	}
	return Deletions{Cells: locks + notifications + collected*ranges, JournalRows: w.Requests().JournalRows}
}

// bytes is how much says so: of a cell its key and two timestamps, of a row of the journal its key.
func (d Deletions) bytes(w Workload) float64 {
	return d.Cells*(w.KeyBytes+2*timestampBytes) + d.JournalRows*aroundEntry
}
