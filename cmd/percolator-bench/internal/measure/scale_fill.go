package measure

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// A table of a million rows is not written by transactions: that would take longer than everything
// that is measured. Its cells are those that committed transactions have left (docs/PROTOCOL.md,
// "Cells"), written in bulk, and the operations compare what our client reads with what these cells
// are to mean. Each version is as if one transaction had written it in all rows.

// The columns of a row.
const (
	scaleBody      = "body" // has the versions
	scaleHeld      = "held" // has them too, in a few rows, where dead transactions leave locks
	scaleKey       = "key"  // indexed: of each row another value
	scaleSeen      = "seen" // observed: dirty in the rows with a notification
	scaleIndexName = "keys"
)

const (
	scaleAge  = 2 * time.Hour // of what is filled in: older than any retention here
	scaleBulk = 20_000        // mutations of a request
)

func newScaleTable(sweep string, size, rows, versions, notifications int, b *scaleBenchmark) *scaleTable {
	rows = max(rows, scaleLeastRows)
	return &scaleTable{
		name: fmt.Sprintf("%s-%d", sweep, size), size: size, rows: rows, versions: versions, notifications: notifications,
		order: rand.New(rand.NewPCG(1, uint64(rows))).Perm(rows), held: min(rows, b.samples*b.repeat), written: map[int]string{},
	}
}

func scaleRow(i int) string { return fmt.Sprintf("row-%08d", i) }

// scaleValueOf is the indexed value of a row. It spreads neighbours over the index.
func scaleValueOf(i int) string { return fmt.Sprintf("key-%02d-%08d", i%100, i) }

func (t *scaleTable) cell(i int, column string) percolator.Cell {
	return percolator.Cell{Table: t.name, Row: scaleRow(i), Column: column}
}

// body is what a version of a row holds.
func (lab *scaleLab) body(i int, version string) string {
	s := scaleRow(i) + " " + version + " "
	return s + strings.Repeat(".", max(lab.b.value-len(s), 0))
}

// want is what a row must hold now.
func (lab *scaleLab) want(t *scaleTable, i int) string {
	if w, ok := t.written[i]; ok {
		return w
	}
	return lab.body(i, fmt.Sprint(t.versions-1))
}

// scaleCells are the mutations of a row, as committed transactions leave them.
type scaleCells struct {
	mut *bigtable.Mutation
	n   int
}

func (c *scaleCells) set(family, column string, ts tso.Timestamp, value []byte) {
	if c.mut == nil {
		c.mut = bigtable.NewMutation()
	}
	c.mut.Set(family, column, bigtable.Timestamp(ts)*1000, value)
	c.n++
}

// put is a cell that was written at start and committed right after it.
func (c *scaleCells) put(column string, start tso.Timestamp, value []byte) {
	c.set("data", column, start, value)
	c.set("write", column, start+1, append(binary.BigEndian.AppendUint64(nil, uint64(start)), 'P'))
}

// fill writes a table and its index.
func (lab *scaleLab) fill(ctx context.Context, t *scaleTable) error {
	now, err := lab.oracle.Next(ctx)
	if err != nil {
		return err
	}
	start := now.Add(-scaleAge)
	table := &scaleBulkWriter{lab: lab, table: lab.bulk(t.name)}
	index := &scaleBulkWriter{lab: lab, table: lab.bulk(t.name + "." + scaleIndexName)}
	held := map[int]bool{}
	for _, i := range t.order[:t.held] {
		held[i] = true
	}
	for i := range t.rows {
		var row, entry scaleCells
		for v := range t.versions {
			value := []byte(lab.body(i, fmt.Sprint(v)))
			row.put(scaleBody, start+tso.Timestamp(2*v), value)
			if held[i] {
				row.put(scaleHeld, start+tso.Timestamp(2*v), value)
			}
		}
		row.put(scaleKey, start, []byte(scaleValueOf(i)))
		if spread := t.rows / max(t.notifications, 1); t.notifications > 0 && i%spread == 0 && i/spread < t.notifications {
			row.put(scaleSeen, start, nil)
			row.set("notify", scaleSeen, start+1, nil)
		}
		entry.put("row", start, []byte(scaleRow(i)))
		if err := table.add(ctx, scaleRow(i), row); err != nil {
			return err
		}
		if err := index.add(ctx, scaleValueOf(i)+"\x00\x01"+scaleRow(i), entry); err != nil {
			return err
		}
	}
	return errors.Join(table.flush(ctx), index.flush(ctx))
}

// scaleBulkWriter gathers the mutations of one table.
type scaleBulkWriter struct {
	lab   *scaleLab
	table *bigtable.Table
	rows  []string
	muts  []*bigtable.Mutation
	cells int
}

func (w *scaleBulkWriter) add(ctx context.Context, row string, c scaleCells) error {
	w.rows, w.muts, w.cells = append(w.rows, row), append(w.muts, c.mut), w.cells+c.n
	if w.cells < scaleBulk {
		return nil
	}
	return w.flush(ctx)
}

func (w *scaleBulkWriter) flush(ctx context.Context) error {
	err := applyBulk(ctx, w.table, w.rows, w.muts)
	w.lab.filled += int64(w.cells)
	w.rows, w.muts, w.cells = nil, nil, 0
	return err
}

// strand leaves a lock in a row, as a client does that died after prewrite: 30 s ago, with a TTL of
// 10 s.
func (lab *scaleLab) strand(ctx context.Context, t *scaleTable, i int) error {
	now, err := lab.oracle.Next(ctx)
	if err != nil {
		return err
	}
	const ttl = 10_000 // ms
	start := now.Add(-30 * time.Second)
	lock := binary.BigEndian.AppendUint64([]byte{1, 'P', 0}, uint64(start)) // version, kind, not observed; time placed
	lock = binary.AppendUvarint(lock, ttl)
	for _, s := range []string{t.name, scaleRow(i), scaleHeld, ""} { // it is its own primary, and of no session
		lock = append(binary.AppendUvarint(lock, uint64(len(s))), s...)
	}
	var c scaleCells
	c.set("data", scaleHeld, start, []byte("never committed"))
	c.set("lock", scaleHeld, start, lock)
	return lab.bulk(t.name).Apply(ctx, scaleRow(i), c.mut)
}

// scaleCollection is one cycle of collection through all tables of a sweep. A cycle waits until
// nobody acts on what was there before; that passes while other operations are measured, and after
// it the collector waits for them to end.
type scaleCollection struct {
	client *percolator.Client
	sent   requestCounter // by that
	tables []*scaleTable
	cancel context.CancelFunc
	over   chan struct{} // closed when the goroutine has ended
	ready  chan struct{} // closed when it has waited
	goOn   chan struct{} // closed when the others are done
	ended  chan error

	// Of the goroutine that collects, until ended.
	erasing bool
	last    scaleMoment
	pages   map[string]*recorder // by table: for each row of a page
	done    map[string]*scaleMoment
	col     collection
}

// scaleMoment is how far a collection was at some time, or what it did with a table.
type scaleMoment struct {
	at             time.Time
	rows, versions int64
	cost           counted
}

// startCollection begins a cycle with a client of its own.
func (lab *scaleLab) startCollection(ctx context.Context, tables []*scaleTable) (*scaleCollection, error) {
	c := &scaleCollection{tables: tables, over: make(chan struct{}), ready: make(chan struct{}), goOn: make(chan struct{}),
		ended: make(chan error, 1),
		pages: map[string]*recorder{}, done: map[string]*scaleMoment{}}
	c.client = lab.environment.client(ctx, percolator.Config{Retention: time.Minute}, c.sent.option())
	if lab.err != nil {
		return nil, lab.err
	}
	ctx, c.cancel = context.WithCancel(ctx)
	go func() {
		defer close(c.over)
		var err error
		c.col, err = collect(ctx, c.client, func(col collection) { c.progress(ctx, col) })
		c.ended <- err
	}()
	return c, nil
}

// stop ends it, however far it has come.
func (c *scaleCollection) stop() {
	c.cancel()
	<-c.over
}

// progress is called after every page and step.
func (c *scaleCollection) progress(ctx context.Context, col collection) {
	switch {
	case col.Phase == collectionResolves && c.last.at.IsZero():
		c.last = c.now(col)
		close(c.ready)
		select {
		case <-c.goOn:
		case <-ctx.Done():
		}
	case col.Phase == collectionErases && !c.erasing:
		c.erasing = true
		c.last = c.now(col)
	case col.Phase == collectionErases:
		c.page(col)
	}
}

func (c *scaleCollection) now(col collection) scaleMoment {
	return scaleMoment{at: time.Now(), rows: col.Rows, versions: col.Versions, cost: costOf(&c.sent, c.client)}
}

// page accounts for the rows since the last call.
func (c *scaleCollection) page(col collection) {
	now := c.now(col)
	if c.done[col.Table] == nil {
		c.pages[col.Table], c.done[col.Table] = new(recorder), new(scaleMoment)
	}
	if n := now.rows - c.last.rows; n > 0 {
		c.pages[col.Table].record(now.at.Sub(c.last.at) / time.Duration(n))
	}
	did := c.done[col.Table]
	did.rows += now.rows - c.last.rows
	did.versions += now.versions - c.last.versions
	did.cost.add(c.last.cost, now.cost)
	c.last = now
}

// finish lets the cycle go on and waits for its end.
func (c *scaleCollection) finish(ctx context.Context) (scaleOperation, error) {
	op := scaleOperation{name: "collect", what: "a collector's pass through the table, to remove what nobody can read any more", per: "row"}
	select {
	case <-c.ready:
	case err := <-c.ended:
		return op, fmt.Errorf("it ended before its time: %w", err)
	case <-ctx.Done():
		return op, ctx.Err()
	}
	close(c.goOn)
	if err := <-c.ended; err != nil {
		return op, err
	}
	for _, t := range c.tables {
		pages, did := c.pages[t.name], c.done[t.name]
		if did == nil || did.rows != int64(t.rows) {
			return op, fmt.Errorf("a table of %d rows was not read through: %+v", t.rows, did)
		}
		if least := int64(2 * (t.versions - 1) * t.rows); did.versions < least { // data and record of all versions but the newest
			return op, fmt.Errorf("%d versions of a table with %d rows were removed, not %d", did.versions, t.rows, least)
		}
		op.points = append(op.points, scalePoint{size: t.size, count: 1, us: []float64{1000 * pages.ms(50)}, p99: 1000 * pages.ms(99),
			removed: did.versions, cost: did.cost})
	}
	if rest := c.col.Corrupt + c.col.Postponed; rest > 0 {
		return op, fmt.Errorf("%d cells were corrupt or left to the next cycle", rest)
	}
	return op, nil
}
