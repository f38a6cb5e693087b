package percolator_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// load plants n committed rows with a value in column c, far quicker than transactions would.
func load(t testing.TB, ctx context.Context, env *percolatortest.Env, table string, n int) {
	t.Helper()
	start, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	commit, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	record := append(binary.BigEndian.AppendUint64(nil, uint64(start)), 'P')
	var rows []string
	var muts []*bigtable.Mutation
	for i := range n {
		mut := bigtable.NewMutation()
		mut.Set("data", "c", bigtable.Timestamp(start)*1000, fmt.Append(nil, i))
		mut.Set("write", "c", bigtable.Timestamp(commit)*1000, record)
		rows, muts = append(rows, fixture.Key(i)), append(muts, mut)
	}
	errs, err := env.Store().Open(table).ApplyBulk(ctx, rows, muts)
	fixture.Must(t, errors.Join(append(errs, err)...))
}

// More rows than a page holds, and a consumer that writes to the table that it scans: rows before,
// at and behind the position change, and the scan sees none of it.
func TestScanOverManyPagesWhileItsConsumerWrites(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	const n = 5500
	load(t, ctx, env, "u", n)
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	next := 0
	for e, err := range s.Scan(ctx, "u", percolator.All()) {
		fixture.Must(t, err)
		if e.Cell.Row != fixture.Key(next) || string(e.Value) != fmt.Sprint(next) || e.CommitTS == 0 || e.CommitTS > s.StartTimestamp() {
			t.Fatalf("entry %d is %s = %q at %d", next, e.Cell, e.Value, e.CommitTS)
		}
		if next%500 == 0 {
			_, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
				return errors.Join(
					tx.Set(percolator.Cell{Table: "u", Row: fixture.Key(next), Column: "c"}, []byte("new")),
					tx.Delete(percolator.Cell{Table: "u", Row: fixture.Key(next + 1), Column: "c"}),
					tx.Set(percolator.Cell{Table: "u", Row: fixture.Key(next) + "x", Column: "c"}, []byte("inserted")),
					tx.Set(percolator.Cell{Table: "u", Row: fixture.Key(n - 1), Column: "c"}, []byte("new")),
				)
			})
			fixture.Must(t, err)
		}
		next++
	}
	if next != n {
		t.Errorf("%d entries, want %d", next, n)
	}
}

// Pages whose rows are all deleted, and a page that ends with its bytes, do not end a scan early.
func TestScanPassesDeletedAndLargeRows(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	load(t, ctx, env, "u", 200)
	tx := fixture.MustBegin(t, ctx, env.Client)
	for i := range 199 {
		fixture.Must(t, tx.Delete(percolator.Cell{Table: "u", Row: fixture.Key(i), Column: "c"}))
	}
	large := strings.Repeat("x", 3<<20)
	for i := 201; i < 205; i++ {
		fixture.Must(t, tx.Set(percolator.Cell{Table: "u", Row: fixture.Key(i), Column: "c"}, []byte(large)))
	}
	fixture.MustCommit(t, ctx, tx)
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	var rows []string
	for e, err := range s.Scan(ctx, "u", percolator.All()) {
		fixture.Must(t, err)
		rows = append(rows, e.Cell.Row)
	}
	if want := fmt.Sprint([]string{fixture.Key(199), fixture.Key(201), fixture.Key(202), fixture.Key(203), fixture.Key(204)}); fmt.Sprint(rows) != want {
		t.Errorf("rows %v, want %s", rows, want)
	}
	// A range that ends exactly where a page of one large row does.
	n := 0
	for _, err := range s.Scan(ctx, "u", percolator.Between(fixture.Key(203), fixture.Key(203)+"\x00")) {
		fixture.Must(t, err)
		n++
	}
	if n != 1 {
		t.Errorf("%d entries of one row", n)
	}
}

func TestScanIsCheapWhenItIsBrokenOff(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	load(t, ctx, env, "u", 3000)
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	before := env.Client.Stats()
	for _, err := range s.Scan(ctx, "u", percolator.All()) {
		fixture.Must(t, err)
		break
	}
	if n := env.Client.Stats().RowsRead - before.RowsRead; n > 100 {
		t.Errorf("%d rows were read for one", n)
	}
}

// Columns are names, not patterns, in scans as well; reserved ones are never shown.
func TestScanOfAwkwardColumns(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	columns := []string{".*", "a", "a.b", "a|b", "axb", "b", `\`, "\n", "\xff", "\xff\xfe", "ä", "seen"}
	tx := fixture.MustBegin(t, ctx, env.Client)
	for _, c := range columns {
		fixture.Must(t, tx.Set(fixture.Cell("r", c), []byte(c)))
	}
	fixture.MustCommit(t, ctx, tx)
	ack := fixture.MustBegin(t, ctx, env.Client)
	a, err := (*commit.Txn)(ack).Acknowledge(ctx, fixture.Cell("r", "seen"), "O", []string{"O"})
	fixture.Must(t, err)
	if !a.Run {
		t.Fatal("nothing to acknowledge")
	}
	fixture.MustCommit(t, ctx, ack)

	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	names := func(stream iter.Seq2[percolator.Entry, error]) (out []string) {
		for e, err := range stream {
			fixture.Must(t, err)
			out = append(out, e.Cell.Column)
			if string(e.Value) != e.Cell.Column {
				t.Errorf("%s holds %q", e.Cell, e.Value)
			}
		}
		return out
	}
	if got := names(s.Scan(ctx, "t", percolator.All())); len(got) != len(columns) {
		t.Errorf("all columns: %q", got)
	} else {
		for i := 1; i < len(got); i++ {
			if got[i-1] >= got[i] {
				t.Errorf("not in order: %q", got)
			}
		}
	}
	for _, c := range columns {
		if got := names(s.Scan(ctx, "t", percolator.All(), c)); len(got) != 1 || got[0] != c {
			t.Errorf("column %q: %q", c, got)
		}
		fixture.WantValue(t, ctx, s, fixture.Cell("r", c), c)
	}
	if got := names(s.Scan(ctx, "t", percolator.All(), "a.b", ".*")); len(got) != 2 {
		t.Errorf("two columns: %q", got)
	}
	fixture.WantErr(t, fixture.FirstError(s.Scan(ctx, "t", percolator.All(), "\x00ack")), percolator.ErrInvalidArgument)
	fixture.WantErr(t, fixture.FirstError(s.Scan(ctx, "t", percolator.All(), "")), percolator.ErrInvalidArgument)
	fixture.WantErr(t, fixture.FirstError(s.Scan(ctx, "none", percolator.All())), percolator.ErrSchemaMismatch)
	fixture.WantErr(t, fixture.FirstError(s.Scan(ctx, "people.mail", percolator.All())), percolator.ErrSchemaMismatch)
	var many []string
	for i := range 3000 {
		many = append(many, fmt.Sprint("column", i))
	}
	fixture.WantErr(t, fixture.FirstError(s.Scan(ctx, "t", percolator.All(), many...)), percolator.ErrTooLarge)
}

// A scan that meets locks of dead and of committed transactions resolves them and goes on where it
// was.
func TestScanResolvesLocksOnItsWay(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	load(t, ctx, env, "t", 300)
	fixture.CrashAfter(t, env, fixture.IsCommit, fixture.Key(10), fixture.Key(150), fixture.Key(290)) // committed
	fixture.CrashAfter(t, env, nil, fixture.Key(20), fixture.Key(160), fixture.Key(299))              // not
	env.Clock.Advance(fixture.LockTTL)
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	n := 0
	for e, err := range s.Scan(ctx, "t", percolator.All()) {
		fixture.Must(t, err)
		want := fmt.Sprint(n)
		if n == 10 || n == 150 || n == 290 {
			want = "crashed"
		}
		if e.Cell.Row != fixture.Key(n) || string(e.Value) != want {
			t.Errorf("entry %d: %s = %q, want %q", n, e.Cell, e.Value, want)
		}
		n++
	}
	if n != 300 {
		t.Errorf("%d entries", n)
	}
	if got := env.Client.Stats(); got.RolledForward != 2 || got.RolledBack != 3 {
		t.Errorf("rolled %d forward and %d back, want 2 and 3", got.RolledForward, got.RolledBack)
	}
}

func TestScanWithEndedContext(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	load(t, ctx, env, "u", 200)
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	ended, cancel := context.WithCancel(ctx)
	n := 0
	for _, err := range s.Scan(ended, "u", percolator.All()) {
		if err != nil {
			fixture.WantErr(t, err, context.Canceled)
			n = -1
			continue // nothing follows an error
		}
		if n < 0 {
			t.Fatal("an entry after the error")
		}
		n++
		cancel()
	}
	if n != -1 {
		t.Errorf("the scan ended after %d entries without an error", n)
	}
	cancel()
}

// Rows whose keys follow each other immediately are not skipped between pages.
func TestScanOfAdjacentKeys(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	const n = 200
	tx := fixture.MustBegin(t, ctx, env.Client)
	for i := range n {
		fixture.Must(t, tx.Set(percolator.Cell{Table: "u", Row: "a" + strings.Repeat("\x00", i), Column: "c"}, nil))
	}
	fixture.MustCommit(t, ctx, tx)
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	next := 0
	for e, err := range s.Scan(ctx, "u", percolator.All()) {
		fixture.Must(t, err)
		if len(e.Cell.Row) != next+1 {
			t.Fatalf("row %q follows %d others", e.Cell.Row, next)
		}
		next++
	}
	if next != n {
		t.Errorf("%d rows, want %d", next, n)
	}
}
