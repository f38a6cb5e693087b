package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// scaleLab is a store with one client of ours, and one of Google's that fills tables.
type scaleLab struct {
	*environment
	b      *scaleBenchmark
	client *percolator.Client
	sent   requestCounter // by that
	bulk   func(table string) *bigtable.Table
	random *rand.Rand
	idle   *observers.Worker
	ahead  atomic.Int64 // how far the oracle's clock is, in nanoseconds

	filled, checked int64
}

func newScaleLab(ctx context.Context, b *scaleBenchmark, emulator string, t *scaleTable) (lab *scaleLab, err error) {
	lab = &scaleLab{b: b, random: rand.New(rand.NewPCG(2, 3)), environment: newEnvironment(ctx, emulator, t.schema())}
	lab.runOracle(ctx, tso.ServerConfig{Now: func() time.Time { return time.Now().Add(time.Duration(lab.ahead.Load())) }})
	lab.client = lab.environment.client(ctx, percolator.Config{}, lab.sent.option())
	lab.bulk = lab.raw(ctx)
	registry := observers.NewRegistry()
	registry.Observe("none", t.name, scaleSeen, func(context.Context, *percolator.Txn, observers.Change) error { return nil })
	if lab.err == nil { // it does not run: there is nothing to do
		lab.idle, lab.err = observers.NewWorker(lab.client, registry, observers.Config{DisableCollection: true})
	}
	return lab, lab.orClose()
}

// costOf is what a client has sent so far, with what it has asked the oracle, and what its requests
// to read returned.
func costOf(sent *requestCounter, c *percolator.Client) counted {
	out := sent.now()
	out.requests["Oracle"] = c.Stats().Requests["Oracle"]
	return out
}

// add adds what came between two moments.
func (c *counted) add(before, after counted) {
	addTo(&c.requests, minus(after.requests, before.requests))
	c.rows += after.rows - before.rows
}

// scaleKind is a sort of operation. prepare, if set, is not timed.
type scaleKind struct {
	name, what string
	whole      bool   // it goes through the whole table
	passes     bool   // and so does this, without a journal
	long       bool   // it reads many rows, and is done more seldom
	of         string // perRow, perChange, or "": what its cost is of
	prepare    func(ctx context.Context, lab *scaleLab, t *scaleTable) error
	do         func(ctx context.Context, lab *scaleLab, t *scaleTable) error
}

// What a cost is of, if not of an operation.
const perRow, perChange = "row", "changed row"

// scaleSeldom is how much more seldom long operations are done.
const scaleSeldom = 10

// scaleScanned is how many rows a short scan hands out.
const scaleScanned = 100

var (
	scaleGet = scaleKind{name: "get", what: "begin, and get of a random row",
		do: func(ctx context.Context, lab *scaleLab, t *scaleTable) error {
			i := lab.random.IntN(t.rows)
			return lab.get(ctx, t.cell(i, scaleBody), lab.want(t, i))
		}}
	scaleWrite = scaleKind{name: "write", what: "begin, set of a random row, commit",
		do: func(ctx context.Context, lab *scaleLab, t *scaleTable) error {
			i := t.nextRow()
			value := lab.body(i, "written")
			_, err := lab.client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
				return tx.Set(t.cell(i, scaleBody), []byte(value))
			})
			if err == nil {
				t.written[i] = value
			}
			return err
		}}
	scaleScan = scaleKind{name: "scan 100", what: "begin, and scan of 100 rows from a random one on", long: true,
		do: func(ctx context.Context, lab *scaleLab, t *scaleTable) error {
			from := lab.random.IntN(max(t.rows-scaleScanned, 0) + 1)
			return lab.scan(ctx, t, from, min(scaleScanned, t.rows))
		}}
	scaleTableScan = scaleKind{name: "scan all", what: "begin, and scan of the whole table", whole: true, of: perRow,
		do: func(ctx context.Context, lab *scaleLab, t *scaleTable) error {
			return lab.scan(ctx, t, 0, t.rows)
		}}
	scaleIndex = scaleKind{name: "index", what: "begin, and look-up of one value in an index over all rows",
		do: func(ctx context.Context, lab *scaleLab, t *scaleTable) error {
			i := lab.random.IntN(t.rows)
			return lab.client.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
				found := ""
				for e, err := range s.ScanIndex(ctx, t.name, scaleIndexName, percolator.Row(scaleValueOf(i))) {
					if err != nil {
						return err
					}
					found += e.Cell.Row
				}
				return lab.check(found, scaleRow(i))
			})
		}}
	scaleLock = scaleKind{name: "dead lock", what: "begin, and get of a row on which a dead transaction has left its lock",
		prepare: func(ctx context.Context, lab *scaleLab, t *scaleTable) error {
			t.locks++
			return lab.strand(ctx, t, t.lastHeld())
		},
		do: func(ctx context.Context, lab *scaleLab, t *scaleTable) error {
			i, before := t.lastHeld(), lab.client.Stats().RolledBack
			err := lab.get(ctx, t.cell(i, scaleHeld), lab.body(i, fmt.Sprint(t.versions-1)))
			if n := lab.client.Stats().RolledBack - before; err == nil && n != 1 {
				err = fmt.Errorf("%d locks were rolled back, not 1", n)
			}
			return err
		}}
	scaleSearch = scaleKind{name: "search", what: "a list of all rows with notifications and locks", passes: true, long: true,
		do: func(ctx context.Context, lab *scaleLab, t *scaleTable) error {
			found := 0
			for p, err := range admin.New(lab.client).ListPending(ctx, t.name, percolator.All(), admin.PendingOptions{}) {
				if err != nil {
					return err
				}
				found += len(p.Notified) + len(p.Locks) + len(p.Corrupt)
			}
			return lab.check(fmt.Sprint(found, " notifications"), fmt.Sprint(t.notifications, " notifications"))
		}}
	scaleWait = scaleKind{name: "wait idle", what: "a wait until observers have nothing left to do", passes: true, long: true,
		do: func(ctx context.Context, lab *scaleLab, _ *scaleTable) error { return lab.idle.WaitIdle(ctx) }}
	scaleCollect = scaleKind{name: "collect", of: perChange,
		what: "a collector's cycle after its drain, to remove what no snapshot can read any more"}
	scalePage = scaleKind{name: "search a page", what: "what a scanner reads at once: up to 1,024 rows with notifications, " +
		"from a random row on", long: true,
		do: func(ctx context.Context, lab *scaleLab, t *scaleTable) error {
			rest := percolator.Between(scaleRow(lab.random.IntN(t.rows)), "")
			_, err := lab.client.Engine().Reads.ReadPending(ctx, t.name, rest, reads.MaxPendingRows, 0)
			return err
		}}
)

// get compares a cell with what it must hold.
func (lab *scaleLab) get(ctx context.Context, c percolator.Cell, want string) error {
	return lab.client.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		v, err := s.Get(ctx, c)
		return errors.Join(err, lab.check(string(v), want))
	})
}

// scan reads n rows and compares each with what it must hold. The range ends with them: of a range,
// the emulator gathers all rows before it looks at the first, and a scan that is broken off would
// cost it what lies behind.
func (lab *scaleLab) scan(ctx context.Context, t *scaleTable, from, n int) error {
	return lab.client.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		i := from
		for e, err := range s.Scan(ctx, t.name, percolator.Between(scaleRow(from), scaleRow(from+n)), scaleBody) {
			if err != nil {
				return err
			}
			if err := lab.check(e.Cell.Row+string(e.Value), scaleRow(i)+lab.want(t, i)); err != nil {
				return err
			}
			i++
		}
		if i != from+n {
			return fmt.Errorf("a scan ended after %d rows of %d", i-from, n)
		}
		return nil
	})
}

// errScaleWrong is an answer that is not what was written: whatever was measured is worth nothing
// then.
var errScaleWrong = errors.New("an answer is wrong")

func (lab *scaleLab) check(got, want string) error {
	lab.checked++
	if got != want {
		return fmt.Errorf("%w: %.40q, want %.40q", errScaleWrong, got, want)
	}
	return nil
}

// nextRow is the next row that is written, at random: another one each time, as long as there are
// any.
func (t *scaleTable) nextRow() int {
	t.writes++
	return t.order[(t.writes-1)%len(t.order)]
}

// lastHeld is the row on which a dead transaction has left the last lock, or is about to.
func (t *scaleTable) lastHeld() int { return t.order[(t.locks-1)%t.held] }

// scaleOperation is an operation at each of the sizes.
type scaleOperation struct {
	scaleKind
	points []*scalePoint
}

// scalePoint is an operation at one size.
type scalePoint struct {
	size    int
	per     float64   // rows that share the cost of a sample
	count   int       // samples: operations, passes through the table, or pages of one
	us      []float64 // the medians of the repetitions
	latency recorder  // of all samples
	cost    counted   // of the samples together
	removed int64     // versions, by collection
}

func newScaleOperation(k scaleKind, tables []*scaleTable) *scaleOperation {
	op := &scaleOperation{scaleKind: k}
	for _, t := range tables {
		share := map[string]int{"": 1, perRow: t.rows, perChange: t.changes}[k.of]
		op.points = append(op.points, &scalePoint{size: t.size, per: float64(share)})
	}
	return op
}

// repeat does the operation as often as one repetition has it.
func (op *scaleOperation) repeat(ctx context.Context, t *scaleTable, p *scalePoint) error {
	lab := t.lab
	n := lab.b.Samples
	switch {
	case op.whole, op.passes && t.journal.off():
		n = 1
	case op.long:
		n = (n + scaleSeldom - 1) / scaleSeldom
	}
	samples := make([]time.Duration, 0, n)
	for range n {
		if op.prepare != nil {
			if err := op.prepare(ctx, lab, t); err != nil {
				return err
			}
		}
		before, started := costOf(&lab.sent, lab.client), time.Now()
		if err := op.do(ctx, lab, t); err != nil {
			return err
		}
		samples = append(samples, time.Since(started))
		p.cost.add(before, costOf(&lab.sent, lab.client))
	}
	p.add(samples)
	return ctx.Err()
}

// add adds the samples of a repetition.
func (p *scalePoint) add(samples []time.Duration) {
	latency := recorded(samples)
	p.us = append(p.us, 1000*latency.ms(50)/p.per)
	p.count += len(samples)
	p.latency.merge(latency)
}

// into adds an operation to the report of a sweep, and returns how it grows: how much more than at
// the smallest size it costs.
func (op *scaleOperation) into(r *run, sweep, table string) report.Line {
	line := report.Line{Name: op.name, Points: true}
	of := cmp.Or(op.of, "operation")
	if op.of != "" {
		line.Name += ", of a " + of
	}
	var sizes, costs []float64
	for _, p := range op.points {
		ratios := slices.Clone(p.us)
		for i, smallest := range op.points[0].us {
			ratios[i] /= smallest
		}
		row := r.Table(table).Row(fmt.Sprintf("%s, %d", op.name, p.size))
		row.Add(sweep, p.size, "of a", of, "n", p.count, "time, µs", p.us, "p99, µs", 1000*p.latency.ms(99)/p.per,
			"× smallest", ratios)
		for _, kind := range slices.Sorted(maps.Keys(p.cost.requests)) {
			row.Add(kind, float64(p.cost.requests[kind])/float64(p.count))
		}
		row.Add("rows read", float64(p.cost.rows)/float64(p.count))
		if p.removed > 0 {
			row.Add("versions removed", p.removed)
		}
		sizes, costs = append(sizes, float64(p.size)), append(costs, row.Value("time"))
		line.X, line.Y = append(line.X, float64(p.size)), append(line.Y, row.Value("× smallest"))
	}
	grown, exponent := r.Table("growth with "+table).Row(op.name), exponentOf(sizes, costs)
	grown.Add("cost of a", of, "grows as size to the power of", exponent, "what", op.what)
	line.Name += fmt.Sprintf(" (size^%.2f)", exponent)
	return line
}

// exponentOf is b of the power law cost = a × size^b that fits best: the slope of the line through
// the logarithms. 0 without two sizes.
func exponentOf(sizes, costs []float64) float64 {
	if len(sizes) < 2 {
		return 0
	}
	var x, y, xx, xy float64 // sums
	for i := range sizes {
		lx, ly := math.Log(sizes[i]), math.Log(costs[i])
		x, y, xx, xy = x+lx, y+ly, xx+lx*lx, xy+lx*ly
	}
	n := float64(len(sizes))
	return (n*xy - x*y) / (n*xx - x*x)
}
