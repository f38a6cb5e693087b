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

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/fill"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A table of a million rows is not written by transactions: that would take longer than everything
// that is measured. Its cells are those that committed transactions have left
// (docs/internals/PROTOCOL.md, "Cells"), written in bulk, and the operations compare what our
// client reads with what these cells are to mean. Each version is as if one transaction had written
// it in all rows. What the journal has to know of, changes and notifications, transactions write.

// The columns of a row.
const (
	scaleBody      = "body" // has the versions
	scaleHeld      = "held" // has them too, in a few rows, where dead transactions leave locks
	scaleKey       = "key"  // indexed: of each row another value
	scaleSeen      = "seen" // observed: written in the rows with a notification
	scaleIndexName = "keys"
)

const (
	scaleAge  = 2 * time.Hour // of what is filled in: older than any retention here
	scaleBulk = 20_000        // cells that are written at once
)

// ready names a table, and takes its rows in a random order.
func (t scaleTable) ready(sweep string, size int, j journal, b *scaleBenchmark) *scaleTable {
	t.name, t.size, t.rows = fmt.Sprintf("%s-%d", sweep, size), size, max(t.rows, scaleLeastRows)
	t.order, t.written = rand.New(rand.NewPCG(1, uint64(t.rows))).Perm(t.rows), map[int]string{}
	t.journal, t.held = j, min(t.rows, b.Samples*b.repeat)
	return &t
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
	return lab.change(ctx, t)
}

// change has transactions overwrite rows and notify, by a client that is closed when its phase two
// is over. Then the oracle's clock is put forward, beyond the retention.
func (lab *scaleLab) change(ctx context.Context, t *scaleTable) error {
	for _, i := range t.order[:t.changes] {
		t.written[i] = lab.body(i, "changed")
	}
	err := lab.briefly(ctx, func(c *percolator.Client) error {
		changed := fill.Items(ctx, c, t.changes, func(tx *percolator.Txn, n int) error {
			return tx.Set(t.cell(t.order[n], scaleBody), []byte(lab.body(t.order[n], "changed")))
		})
		return errors.Join(changed, fill.Items(ctx, c, t.notifications, func(tx *percolator.Txn, n int) error {
			return tx.Set(t.cell(n*(t.rows/t.notifications), scaleSeen), nil)
		}))
	})
	lab.ahead.Store(int64(2 * scaleRetention))
	return err
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
	// Version, kind, not observed; time placed.
	lock := binary.BigEndian.AppendUint64([]byte{1, 'P', 0}, uint64(start))
	lock = binary.AppendUvarint(lock, ttl)
	// The lock is its own primary, and has no session.
	for _, s := range []string{t.name, scaleRow(i), scaleHeld, ""} {
		lock = append(binary.AppendUvarint(lock, uint64(len(s))), s...)
	}
	mut := setCell("data", scaleHeld, cellTime(start), []byte("never committed"))
	mut.Set("lock", scaleHeld, cellTime(start), lock)
	return lab.bulk(t.name).Apply(ctx, scaleRow(i), mut)
}

// scaleRetention is that of the client that collects.
const scaleRetention = time.Minute

// collect measures one cycle of collection, by a client of its own, after its drain.
func (lab *scaleLab) collect(ctx context.Context, t *scaleTable, p *scalePoint) error {
	sent := requestCounter{table: t.name}
	client := lab.environment.client(ctx, percolator.Config{Retention: scaleRetention}, sent.option())
	if lab.err != nil {
		return lab.err
	}
	var started time.Time
	collector, err := admin.New(client).NewCollector(admin.CollectorConfig{RowsPerSecond: 1_000_000_000, Progress: func(col admin.Collection) {
		if col.Phase == model.CollectionResolve && started.IsZero() {
			started = time.Now()
		}
	}})
	if err != nil {
		return err
	}
	col, err := collector.Collect(ctx)
	if err != nil {
		return err
	}
	p.add([]time.Duration{time.Since(started)})
	p.cost, p.removed = sent.now(), col.Versions
	superseded := t.changes * t.versions
	if t.journal.off() { // a pass finds what was filled in, too
		superseded = t.rows*(t.versions-1) + t.changes
	}
	if least := int64(2 * superseded); p.removed < least { // values and records
		return fmt.Errorf("%d versions of a table with %d rows were removed, not %d", p.removed, t.rows, least)
	}
	if rest := col.Corrupt + col.Postponed; rest > 0 {
		return fmt.Errorf("%d cells were corrupt or left to the next cycle", rest)
	}
	return nil
}
