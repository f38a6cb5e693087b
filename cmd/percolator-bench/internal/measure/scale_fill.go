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
	scaleHeld      = "held" // has them too, in a few rows: there dead transactions leave locks, and rollback markers stay, beside what is scanned
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
	table := &scaleBulkWriter{lab: lab, table: lab.bulk.Open(t.name)}
	index := &scaleBulkWriter{lab: lab, table: lab.bulk.Open(t.name + "." + scaleIndexName)}
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
	return lab.bulk.Open(t.name).Apply(ctx, scaleRow(i), c.mut)
}
