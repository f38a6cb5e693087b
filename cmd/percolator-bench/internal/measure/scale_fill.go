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
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
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
	scaleBulk = 20_000        // cells that are written at once
)

func newScaleTable(sweep string, size, rows, versions, notifications int, b *scaleBenchmark) *scaleTable {
	rows = max(rows, scaleLeastRows)
	return &scaleTable{
		name: fmt.Sprintf("%s-%d", sweep, size), size: size, rows: rows, versions: versions, notifications: notifications,
		order: rand.New(rand.NewPCG(1, uint64(rows))).Perm(rows), held: min(rows, b.Samples*b.repeat), written: map[int]string{},
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
	return s + strings.Repeat(".", max(lab.b.Value-len(s), 0))
}

// want is what a row must hold now.
func (lab *scaleLab) want(t *scaleTable, i int) string {
	if w, ok := t.written[i]; ok {
		return w
	}
	return lab.body(i, fmt.Sprint(t.versions-1))
}

// put writes a cell as a transaction leaves it that began at start and committed right after it.
func (lab *scaleLab) put(row *bigtable.Mutation, column string, start tso.Timestamp, value []byte) {
	row.Set("data", column, cellTime(start), value)
	row.Set("write", column, cellTime(start+1), append(binary.BigEndian.AppendUint64(nil, uint64(start)), 'P'))
	lab.filled += 2
}

// cellTime is the version of a cell that stands for a timestamp: Bigtable counts microseconds, and
// keeps milliseconds.
func cellTime(ts tso.Timestamp) bigtable.Timestamp { return bigtable.Timestamp(ts) * 1000 }

// fill writes a table and its index.
func (lab *scaleLab) fill(ctx context.Context, t *scaleTable) error {
	now, err := lab.oracle.Next(ctx)
	if err != nil {
		return err
	}
	start := now.Add(-scaleAge)
	held := map[int]bool{}
	for _, i := range t.order[:t.held] {
		held[i] = true
	}
	batch := max(1, scaleBulk/(4*t.versions+5))
	for from := 0; from < t.rows; from += batch {
		var rows, entries []string
		var rowMuts, entryMuts []*bigtable.Mutation
		for i := from; i < min(from+batch, t.rows); i++ {
			entry := bigtable.NewMutation()
			lab.put(entry, "row", start, []byte(scaleRow(i)))
			rows, rowMuts = append(rows, scaleRow(i)), append(rowMuts, lab.rowOf(t, i, start, held[i]))
			entries, entryMuts = append(entries, scaleValueOf(i)+"\x00\x01"+scaleRow(i)), append(entryMuts, entry)
		}
		if err := errors.Join(applyBulk(ctx, lab.bulk(t.name), rows, rowMuts),
			applyBulk(ctx, lab.bulk(t.name+"."+scaleIndexName), entries, entryMuts)); err != nil {
			return err
		}
	}
	return nil
}

// rowOf is row i with all its versions, from start on.
func (lab *scaleLab) rowOf(t *scaleTable, i int, start tso.Timestamp, held bool) *bigtable.Mutation {
	row := bigtable.NewMutation()
	for v := range t.versions {
		value := []byte(lab.body(i, fmt.Sprint(v)))
		lab.put(row, scaleBody, start+tso.Timestamp(2*v), value)
		if held {
			lab.put(row, scaleHeld, start+tso.Timestamp(2*v), value)
		}
	}
	lab.put(row, scaleKey, start, []byte(scaleValueOf(i)))
	if spread := t.rows / max(t.notifications, 1); t.notifications > 0 && i%spread == 0 && i/spread < t.notifications {
		lab.put(row, scaleSeen, start, nil)
		row.Set("notify", scaleSeen, cellTime(start+1), nil)
		lab.filled++
	}
	return row
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
	mut := setCell("data", scaleHeld, cellTime(start), []byte("never committed"))
	mut.Set("lock", scaleHeld, cellTime(start), lock)
	return lab.bulk(t.name).Apply(ctx, scaleRow(i), mut)
}

// scaleCollection is one cycle of collection through all tables of a sweep. A cycle waits until
// nobody acts on what was there before; that passes while other operations are measured, and after
// it the collector waits for them to end.
type scaleCollection struct {
	client *percolator.Client
	sent   map[string]*requestCounter // by that, to each table
	tables []*scaleTable
	ready  chan struct{} // closed when it has waited
	goOn   chan struct{} // closed when the others are done
	ended  chan error

	// Of the goroutine that collects, until ended.
	erasing bool
	last    scaleMoment
	done    map[string]*scaleCollected // by table
	col     admin.Collection
}

// scaleMoment is how far a collection was at some time.
type scaleMoment struct {
	at             time.Time
	rows, versions int64
}

// scaleCollected is what a collection did with a table.
type scaleCollected struct {
	rows, versions int64
	before, cost   counted
	latency        recorder // for each row of a page
}

// startCollection begins a cycle with a client of its own. It ends with the lab, however far it has
// come.
func (lab *scaleLab) startCollection(ctx context.Context, tables []*scaleTable) (*scaleCollection, error) {
	c := &scaleCollection{tables: tables, ready: make(chan struct{}), goOn: make(chan struct{}), ended: make(chan error, 1),
		sent: map[string]*requestCounter{}, done: map[string]*scaleCollected{}}
	var counting []option.ClientOption
	for _, t := range tables {
		c.sent[t.name], c.done[t.name] = &requestCounter{table: t.name}, new(scaleCollected)
		counting = append(counting, c.sent[t.name].option())
	}
	c.client = lab.environment.client(ctx, percolator.Config{Retention: time.Minute}, counting...)
	if lab.err != nil {
		return nil, lab.err
	}
	lab.background(ctx, func(ctx context.Context) error {
		collector, err := admin.New(c.client).NewCollector(admin.CollectorConfig{
			Lease: time.Hour, RowsPerSecond: 1_000_000_000, Progress: func(col admin.Collection) { c.progress(ctx, col) },
		})
		if err == nil {
			c.col, err = collector.Collect(ctx)
		}
		c.ended <- err
		return nil
	})
	return c, nil
}

// progress is called after every page and step.
func (c *scaleCollection) progress(ctx context.Context, col admin.Collection) {
	switch {
	case col.Phase == admin.CollectionResolve && c.last.at.IsZero():
		c.last = c.now(col)
		close(c.ready)
		select {
		case <-c.goOn:
		case <-ctx.Done():
		}
	case col.Phase == admin.CollectionErase && !c.erasing:
		c.erasing = true
		c.last = c.now(col)
		for table, sent := range c.sent {
			c.done[table].before = sent.now()
		}
	case col.Phase == admin.CollectionErase:
		c.page(col)
	}
}

func (c *scaleCollection) now(col admin.Collection) scaleMoment {
	return scaleMoment{at: time.Now(), rows: col.Rows, versions: col.Versions}
}

// page accounts for the rows since the last call.
func (c *scaleCollection) page(col admin.Collection) {
	now, did := c.now(col), c.done[col.Page]
	if did == nil { // it is not one of the sweep
		c.last = now
		return
	}
	n := now.rows - c.last.rows
	if n > 0 {
		did.latency.record(now.at.Sub(c.last.at) / time.Duration(n))
	}
	did.rows += n
	did.versions += now.versions - c.last.versions
	c.last = now
}

// finish lets the cycle go on and waits for its end.
func (c *scaleCollection) finish(ctx context.Context) (*scaleOperation, error) {
	op := newScaleOperation(scaleKind{name: "collect", perRow: true,
		what: "a collector's pass through the table, to remove what nobody can read any more"}, c.tables)
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
	for i, t := range c.tables {
		did := c.done[t.name]
		did.cost.add(did.before, c.sent[t.name].now())
		if did.rows != int64(t.rows) {
			return op, fmt.Errorf("a table of %d rows was not read through", t.rows)
		}
		if least := int64(2 * (t.versions - 1) * t.rows); did.versions < least { // data and record of all versions but the newest
			return op, fmt.Errorf("%d versions of a table with %d rows were removed, not %d", did.versions, t.rows, least)
		}
		p := op.points[i]
		p.count, p.per, p.removed, p.cost = 1, 1, did.versions, did.cost // its latency is of rows
		p.us = []float64{1000 * did.latency.ms(50)}
		p.latency.merge(&did.latency)
	}
	if rest := c.col.Corrupt + c.col.Postponed; rest > 0 {
		return op, fmt.Errorf("%d cells were corrupt or left to the next cycle", rest)
	}
	return op, nil
}
