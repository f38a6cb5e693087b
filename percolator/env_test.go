package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// testSchema has one table of each sort: t with an observed and a weak column, u plain, and people with indexes.
func testSchema() *percolator.Schema {
	return &percolator.Schema{Tables: []percolator.Table{
		{Name: "t", Observed: []string{"seen"}, Weak: []string{"poke"}},
		{Name: "u"},
		{Name: "people", Indexes: []percolator.Index{{Name: "mail", Column: "mail", Unique: true}, {Name: "city", Column: "city"}}},
	}}
}

func newEnv(t testing.TB, opts ...percolatortest.Option) *percolatortest.Env {
	t.Helper()
	return percolatortest.New(t, testSchema(), opts...)
}

// testContext bounds a test: what hangs fails.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func cell(row, column string) percolator.Cell {
	return percolator.Cell{Table: "t", Row: row, Column: column}
}

func mustBegin(t testing.TB, ctx context.Context, c *percolator.Client, opts ...percolator.TxnOption) *percolator.Txn {
	t.Helper()
	tx, err := c.Begin(ctx, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func mustCommit(t testing.TB, ctx context.Context, tx *percolator.Txn) tso.Timestamp {
	t.Helper()
	ts, err := tx.Commit(ctx)
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	return ts
}

// put commits values, cell by cell given as row, column, value, and waits for phase two: no lock is left.
func put(t testing.TB, ctx context.Context, c *percolator.Client, words ...string) tso.Timestamp {
	t.Helper()
	tx := mustBegin(t, ctx, c)
	for i := 0; i+2 < len(words); i += 3 {
		must(t, tx.Set(cell(words[i], words[i+1]), []byte(words[i+2])))
	}
	ts := mustCommit(t, ctx, tx)
	must(t, c.Flush(ctx))
	return ts
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %v, want %v", err, target)
		}
	}
}

// wantValue reads a cell; want "" means that there is none.
func wantValue(t testing.TB, ctx context.Context, r percolator.Reader, c percolator.Cell, want string) {
	t.Helper()
	v, err := r.Get(ctx, c)
	switch {
	case want == "" && errors.Is(err, percolator.ErrNotFound):
	case err != nil:
		t.Errorf("%s: %v", c, err)
	case want == "" || string(v) != want:
		t.Errorf("%s: %q, want %q", c, v, want)
	}
}

// wantNow reads a cell in a new snapshot.
func wantNow(t testing.TB, ctx context.Context, c *percolator.Client, at percolator.Cell, want string) {
	t.Helper()
	s, err := c.Snapshot(ctx)
	must(t, err)
	wantValue(t, ctx, s, at, want)
}

// cellsOf counts what is stored in a family of a table.
func cellsOf(t testing.TB, ctx context.Context, env *percolatortest.Env, table, family string) (n int) {
	t.Helper()
	err := env.Store().Open(table).ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		n += len(r[family])
		return true
	}, bigtable.RowFilter(bigtable.FamilyFilter(family)))
	must(t, err)
	return n
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// The phases of the protocol, as the requests show them.

func isPrewrite(r percolatortest.Request) bool {
	m, ok := r.Message.(*btpb.CheckAndMutateRowRequest)
	return ok && sets(m.FalseMutations, "lock")
}

// isCommit tells a commit point, or one cell's roll forward, which looks alike.
func isCommit(r percolatortest.Request) bool {
	m, ok := r.Message.(*btpb.CheckAndMutateRowRequest)
	return ok && sets(m.TrueMutations, "write")
}

func isRefresh(r percolatortest.Request) bool {
	m, ok := r.Message.(*btpb.CheckAndMutateRowRequest)
	return ok && sets(m.TrueMutations, "lock")
}

func sets(ms []*btpb.Mutation, family string) bool {
	for _, m := range ms {
		if m.GetSetCell().GetFamilyName() == family {
			return true
		}
	}
	return false
}

// atMost does a with the first n requests for which is holds.
func atMost(n int, is func(percolatortest.Request) bool, a percolatortest.Action) func(percolatortest.Request) percolatortest.Action {
	var mu sync.Mutex
	return func(r percolatortest.Request) percolatortest.Action {
		if !is(r) {
			return percolatortest.Pass
		}
		mu.Lock()
		defer mu.Unlock()
		if n == 0 {
			return percolatortest.Pass
		}
		n--
		return a
	}
}

// tally counts the requests on user tables by method, and those to the oracle.
func tally(env *percolatortest.Env, c *percolator.Client) map[string]int {
	n := map[string]int{}
	for _, r := range env.FaultsOf(c).Requests() {
		if r.Table != "percolator_meta" {
			n[r.Method]++
		}
	}
	return n
}

func key(i int) string { return fmt.Sprintf("row-%06d", i) }

// plant writes a cell that the protocol would not write. ts is a Bigtable timestamp.
func plant(t testing.TB, ctx context.Context, env *percolatortest.Env, table, row, family, column string, ts int64, value string) {
	t.Helper()
	mut := bigtable.NewMutation()
	mut.Set(family, column, bigtable.Timestamp(ts), []byte(value))
	must(t, env.Store().Open(table).Apply(ctx, row, mut))
}

// lockTTL is more than the TTL of a lock, for Clock.Advance.
const lockTTL = 11 * time.Second

// crashAfter has a client of its own write "crashed" to column c of the rows, the first of which is the primary, and die before
// the commit, or after the request that is describes.
func crashAfter(t testing.TB, env *percolatortest.Env, is func(percolatortest.Request) bool, rows ...string) {
	t.Helper()
	crash(t, env, env.NewClient(), is, rows...)
}

// crash is crashAfter with a given client.
func crash(t testing.TB, env *percolatortest.Env, c *percolator.Client, is func(percolatortest.Request) bool, rows ...string) {
	t.Helper()
	ctx := testContext(t)
	tx := mustBegin(t, ctx, c)
	for _, r := range rows {
		must(t, tx.Set(cell(r, "c"), []byte("crashed")))
	}
	var dead atomic.Bool
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		switch {
		case dead.Load() || is == nil && isCommit(r):
			return percolatortest.Crash
		case is != nil && is(r):
			dead.Store(true)
		}
		return percolatortest.Pass
	})
	if _, err := tx.Commit(ctx); is == nil && err == nil {
		t.Fatal("the client did not crash")
	}
	eventually(t, "the crash", func() bool {
		c.Flush(ctx)
		return env.FaultsOf(c).Crashed() || dead.Load() && len(rows) == 1
	})
}
