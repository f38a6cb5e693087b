package percolator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// Records that change nothing – of locks and of transactions that were rolled back – lie above
// values. A read past them costs at most twice the requests of a plain one, and hardly more bytes.

// lockedRows is how many rows the tests lock, and lockedValue what each holds.
const lockedRows = 300

func lockedValue(i int) string { return fmt.Sprintf("%03d", i) + strings.Repeat("v", 797) }

// resident is a row of which only the city has a value, where it is inserted so.
type resident struct {
	Key  string  `percolator:",key"`
	City string  `percolator:"city"`
	Mail *string `percolator:"mail"`
	Name *string `percolator:"name"`
}

// spent is what an operation sends and gets.
type spent struct{ requests, bytes int64 }

// lockReaders are the operations that read rows as a snapshot sees them.
var lockReaders = []struct {
	name string
	do   func(t *testing.T, ctx context.Context, c *percolator.Client)
}{
	{"scan", func(t *testing.T, ctx context.Context, c *percolator.Client) {
		scanPeople(t, ctx, c, percolator.ScanOptions{})
	}},
	{"scan of a column", func(t *testing.T, ctx context.Context, c *percolator.Client) {
		scanPeople(t, ctx, c, percolator.ScanOptions{Columns: []string{"city"}})
	}},
	{"scan of ranges of columns", func(t *testing.T, ctx context.Context, c *percolator.Client) {
		scanPeople(t, ctx, c, percolator.ScanOptions{ColumnRanges: []percolator.Range{percolator.Between("a", "z")}})
	}},
	{"reverse scan", func(t *testing.T, ctx context.Context, c *percolator.Client) {
		scanPeople(t, ctx, c, percolator.ScanOptions{Reverse: true})
	}},
	{"GetMulti", func(t *testing.T, ctx context.Context, c *percolator.Client) {
		s, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		values, err := s.GetMulti(ctx, cities()...)
		fixture.Must(t, err)
		for i, v := range values {
			if string(v) != lockedValue(i) {
				t.Errorf("GetMulti: row %d has %d bytes", i, len(v))
			}
		}
	}},
	{"export", func(t *testing.T, ctx context.Context, c *percolator.Client) {
		s, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		n := 0
		for row, err := range admin.New(c).ExportRows(ctx, s.StartTimestamp(), "people", percolator.All()) {
			fixture.Must(t, err)
			if len(row.Cells) != 1 || string(row.Cells[0].Value) != lockedValue(n) {
				t.Errorf("export: row %d has %d cells", n, len(row.Cells))
			}
			n++
		}
		if n != lockedRows {
			t.Errorf("export: %d rows", n)
		}
	}},
	{"VerifyIndex", func(t *testing.T, ctx context.Context, c *percolator.Client) {
		report, err := admin.New(c).VerifyIndex(ctx, "people", "city", admin.VerifyIndexOptions{})
		fixture.Must(t, err)
		if report.Cells != lockedRows || report.Entries != lockedRows || len(report.Findings) > 0 {
			t.Errorf("VerifyIndex: %d cells, %d entries, %d findings", report.Cells, report.Entries, len(report.Findings))
		}
	}},
	{"DeleteRange", func(t *testing.T, ctx context.Context, c *percolator.Client) {
		if _, err := admin.New(c).DeleteRange(ctx, "people", percolator.All(), admin.DeleteOptions{DryRun: true}); err != nil {
			t.Errorf("DeleteRange: %v", err)
		}
	}},
}

func scanPeople(t *testing.T, ctx context.Context, c *percolator.Client, o percolator.ScanOptions) {
	t.Helper()
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	n := 0
	for e, err := range s.ScanWith(ctx, "people", o) {
		fixture.Must(t, err)
		i := n
		if o.Reverse {
			i = lockedRows - 1 - n
		}
		if e.Cell.Row != fixture.Key(i) || string(e.Value) != lockedValue(i) {
			t.Errorf("scan: entry %d is %s, of %d bytes", n, e.Cell, len(e.Value))
		}
		n++
	}
	if n != lockedRows {
		t.Errorf("scan: %d entries", n)
	}
}

// cities are the cells that have values.
func cities() (cells []percolator.Cell) {
	for i := range lockedRows {
		cells = append(cells, percolator.Cell{Table: "people", Row: fixture.Key(i), Column: "city"})
	}
	return cells
}

// measure is what each of the readers spends, with a client that knows nothing of the rows yet.
func measure(t *testing.T, ctx context.Context, env *percolatortest.Env) map[string]spent {
	t.Helper()
	out := map[string]spent{}
	for _, r := range lockReaders {
		c, m := newMeter(t, ctx, env)
		r.do(t, ctx, c)
		out[r.name] = spent{m.Requests.Load(), m.Bytes.Load()}
	}
	return out
}

// fillPeople commits the rows, each with a value in one column.
func fillPeople(t *testing.T, ctx context.Context, env *percolatortest.Env) {
	t.Helper()
	tx := fixture.MustBegin(t, ctx, env.Client)
	for i, c := range cities() {
		fixture.Must(t, tx.Set(c, []byte(lockedValue(i))))
	}
	fixture.MustCommit(t, ctx, tx)
	fixture.Must(t, env.Client.Flush(ctx))
}

func TestReadsPastLockRecords(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	plain := fixture.NewEnv(t)
	fillPeople(t, ctx, plain)
	want := measure(t, ctx, plain)
	forUpdate := func(times int) func(*testing.T, context.Context, *percolatortest.Env) {
		return func(t *testing.T, ctx context.Context, env *percolatortest.Env) {
			fillPeople(t, ctx, env)
			for range times {
				tx := fixture.MustBegin(t, ctx, env.Client)
				for _, c := range cities() {
					fixture.Must(t, fixture.ErrOf(tx.GetForUpdate(ctx, c)))
				}
				fixture.MustCommit(t, ctx, tx)
				fixture.Must(t, env.Client.Flush(ctx))
			}
		}
	}
	for _, tc := range []struct {
		name    string
		prepare func(t *testing.T, ctx context.Context, env *percolatortest.Env)
	}{
		{"GetForUpdate", forUpdate(1)},
		{"GetForUpdate, five times", forUpdate(5)},
		{"LockReads", func(t *testing.T, ctx context.Context, env *percolatortest.Env) {
			fillPeople(t, ctx, env)
			tx := fixture.MustBegin(t, ctx, env.Client, percolator.LockReads())
			fixture.Must(t, fixture.ErrOf(tx.GetMulti(ctx, cities()...)))
			fixture.Must(t, tx.Set(fixture.Cell("r", "c"), nil))
			fixture.MustCommit(t, ctx, tx)
			fixture.Must(t, env.Client.Flush(ctx))
		}},
		{"Insert", func(t *testing.T, ctx context.Context, env *percolatortest.Env) {
			people, err := percolator.RowOf[resident]("people")
			fixture.Must(t, err)
			tx := fixture.MustBegin(t, ctx, env.Client)
			for i := range lockedRows {
				fixture.Must(t, people.Insert(tx, resident{Key: fixture.Key(i), City: lockedValue(i)}))
			}
			fixture.MustCommit(t, ctx, tx)
			fixture.Must(t, env.Client.Flush(ctx))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx, env := fixture.Context(t), fixture.NewEnv(t)
			tc.prepare(t, ctx, env)
			for name, got := range measure(t, ctx, env) {
				t.Logf("%s: %d requests and %d bytes, plain %d and %d", name, got.requests, got.bytes, want[name].requests, want[name].bytes)
				if w := want[name]; got.requests > 2*w.requests || 10*got.bytes > 12*w.bytes {
					t.Errorf("%s: %d requests and %d bytes, plain %d and %d", name, got.requests, got.bytes, w.requests, w.bytes)
				}
			}
		})
	}
}

// A snapshot between start and commit of a large transaction guesses at each value wrongly.
func TestReadsBetweenStartAndCommit(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	for _, locked := range []bool{false, true} {
		env := fixture.NewEnv(t)
		fillPeople(t, ctx, env)
		most := int64(2)
		if locked { // the guess is wrong, and the record that says so lies deeper
			most = 3
			tx := fixture.MustBegin(t, ctx, env.Client)
			for _, c := range cities() {
				fixture.Must(t, fixture.ErrOf(tx.GetForUpdate(ctx, c)))
			}
			fixture.MustCommit(t, ctx, tx)
			fixture.Must(t, env.Client.Flush(ctx))
		}
		c, m := newMeter(t, ctx, env)
		tx := fixture.MustBegin(t, ctx, env.Client)
		between, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		for _, cell := range cities() {
			fixture.Must(t, tx.Set(cell, []byte("later")))
		}
		fixture.MustCommit(t, ctx, tx)
		fixture.Must(t, env.Client.Flush(ctx))
		n := 0
		for e, err := range between.Scan(ctx, "people", percolator.All()) {
			fixture.Must(t, err)
			if string(e.Value) != lockedValue(n) {
				t.Errorf("%s is %.20q", e.Cell, e.Value)
			}
			n++
		}
		const pages = 3
		t.Logf("locked %v: %d requests, %d bytes", locked, m.Requests.Load(), m.Bytes.Load())
		if got := m.Requests.Load(); n != lockedRows || got > most*pages {
			t.Errorf("locked %v: %d entries, %d requests, at most %d", locked, n, got, most*pages)
		}
	}
}

// A cell that was written often and locked very often.
func TestGetPastManyLockRecords(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	const size = 32 << 10
	cell := fixture.Cell("r", "c")
	for i := range 40 {
		fixture.Put(t, ctx, env.Client, "r", "c", strings.Repeat(string(rune('a'+i%26)), size))
	}
	now, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	mut := bigtable.NewMutation()
	for i := range tso.Timestamp(300) {
		at := now + 2*i + 1
		mut.Set(layout.WriteFamily, "c", bigtable.Timestamp(layout.CellTime(at)), layout.EncodeWrite(at-1, layout.KindLock))
	}
	fixture.Must(t, env.Store().Open("t").Apply(ctx, "r", mut))
	fixture.Must(t, fixture.ErrOf(env.Oracle.Next(ctx)))
	c, m := newMeter(t, ctx, env)
	var s *percolator.Snapshot
	fixture.Eventually(t, "the oracle passes the records", func() bool {
		s, err = c.Snapshot(ctx)
		fixture.Must(t, err)
		return s.StartTimestamp() > now+600
	})
	for i, want := range []int64{2, 1, 1} { // the next reads know that the cell is locked often
		m.Requests.Store(0)
		m.Bytes.Store(0)
		again, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		value, err := again.Get(ctx, cell)
		if err != nil || len(value) != size {
			t.Fatalf("%d bytes, %v", len(value), err)
		}
		t.Logf("read %d: %d requests, %d bytes", i, m.Requests.Load(), m.Bytes.Load())
		if got := m.Bytes.Load(); m.Requests.Load() != want || 10*got > 12*size {
			t.Errorf("read %d: %d requests and %d bytes for %d", i, m.Requests.Load(), got, size)
		}
	}
}

// Whoever loses a conflict learns of the winner, not what it has written.
func TestLostConflictReadsNoValue(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	c, m := newMeter(t, ctx, env)
	for _, columns := range []int{1, 10} {
		tx := fixture.MustBegin(t, ctx, c)
		for i := range columns {
			fixture.Put(t, ctx, env.Client, "r", fmt.Sprint("c", i), strings.Repeat("v", 1<<20))
			fixture.Must(t, tx.Set(fixture.Cell("r", fmt.Sprint("c", i)), nil))
		}
		m.Requests.Store(0)
		m.Bytes.Store(0)
		fixture.WantErr(t, fixture.ErrOf(tx.Commit(ctx)), percolator.ErrConflict)
		t.Logf("%d columns: %d requests, %d bytes", columns, m.Requests.Load(), m.Bytes.Load())
		if m.Requests.Load() != 1 || m.Bytes.Load() > 1000 {
			t.Errorf("%d columns: %d requests, %d bytes", columns, m.Requests.Load(), m.Bytes.Load())
		}
	}
}
