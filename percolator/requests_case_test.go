package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// What each operation sends is asserted exactly: it does not depend on the machine, and a request
// more is a round trip more. The cases are in requests_*_test.go.

// cost counts requests to user tables and to the oracle by kind. Reads and bulk mutations are told
// apart by how many rows they name: "ReadRows 3", "MutateRows 9"; "ReadRows range" is a scan.
type cost map[string]int

func (c cost) String() string {
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "%d × %s, ", c[kind], kind)
	}
	return strings.TrimSuffix(b.String(), ", ")
}

func costOf(rs []percolatortest.Request) cost {
	n := cost{}
	for _, r := range rs {
		switch {
		case r.Table == "percolator_meta": // asked for every now and then, whatever is done
		case r.Method == percolatortest.ReadRows && r.Rows == 0:
			n["ReadRows range"]++
		case r.Method == percolatortest.ReadRows, r.Method == percolatortest.MutateRows:
			n[fmt.Sprint(r.Method, " ", r.Rows)]++
		default:
			n[r.Method]++
		}
	}
	return n
}

// guard is one case's store and client. The row r of the table t has values in the columns c and
// seen.
type guard struct {
	*testing.T
	env *percolatortest.Env
	ctx context.Context
	c   *percolator.Client // whose requests are counted

	before percolator.Stats
}

// batches counts the appends among requests to the journal.
func batches(rs []percolatortest.Request) (n int) {
	for _, r := range rs {
		if r.Method == percolatortest.MutateRows && len(r.Row) == 25 {
			n++
		}
	}
	return n
}

// requestCase is an operation and what it costs. Each of gather commits transactions with one
// secondary in a table: their phase two is held until the operation is over, so that its own is
// gathered in one request whatever the goroutines do.
type requestCase struct {
	name    string
	prepare func(g *guard)
	gather  []func(g *guard, i int)
	do      func(g *guard)
	want    cost
}

func runRequestCases(t *testing.T, cases []requestCase) {
	t.Parallel()
	for _, rc := range cases {
		t.Run(rc.name, func(t *testing.T) {
			t.Parallel()
			rc.run(t)
		})
	}
}

func (rc requestCase) run(t *testing.T) {
	env := fixture.NewEnv(t, percolatortest.Configure(longTTL))
	g := &guard{T: t, env: env, ctx: fixture.Context(t), c: env.Client}
	fixture.Put(t, g.ctx, g.c, "r", "c", "v", "r", "seen", "v")
	if rc.prepare != nil {
		rc.prepare(g)
		fixture.Must(t, g.c.Flush(g.ctx))
	}
	release := func() {}
	if rc.gather != nil {
		release = g.occupyPhaseTwo(rc.gather...)
	}
	if wrong := g.miscounted(); wrong != "" {
		t.Errorf("before: %s", wrong)
	}
	g.count()
	rc.do(g)
	release()
	fixture.Must(t, g.c.Flush(g.ctx))
	if wrong := g.miscounted(); wrong != "" {
		t.Error(wrong)
	}
	requests := env.FaultsOf(g.c).Requests()
	if got := costOf(requests); !maps.Equal(got, rc.want) {
		t.Errorf("sent %v\nwant %v", got, rc.want)
	}
	// A commit has one append more, whatever it writes, and shares that with those that run beside
	// it; one that fails has none if it has failed before that. Headers and low positions follow
	// the time.
	appended := env.FaultsOf(g.c).JournalRequests()
	after := g.c.Stats()
	commits, failed := after.Transactions-g.before.Transactions, after.Conflicts+after.Aborts-g.before.Conflicts-g.before.Aborts
	if n := int64(batches(appended)); n > commits+failed || rc.gather == nil && n < commits {
		t.Errorf("%d commits, and %d that failed, appended %d rows to the journal", commits, failed, n)
	}
}

// miscounted waits until the client's own counters tell what was sent since the last count, as a
// client appends headers at times of its own, and says what they tell instead.
func (g *guard) miscounted() (wrong string) {
	ctx, cancel := context.WithTimeout(g.ctx, 30*time.Second)
	defer cancel()
	fixture.Until(ctx, func() bool {
		wrong = ""
		sent := slices.Concat(g.env.FaultsOf(g.c).Requests(), g.env.FaultsOf(g.c).JournalRequests())
		for method, counted := range g.c.Stats().Requests {
			n := len(slices.DeleteFunc(slices.Clone(sent), func(r percolatortest.Request) bool { return r.Method != method }))
			if counted -= g.before.Requests[method]; counted != int64(n) {
				wrong = fmt.Sprintf("Stats counts %d %s, %d were sent", counted, method, n)
			}
		}
		return wrong == ""
	})
	return wrong
}

// count counts from now on.
func (g *guard) count() {
	g.env.FaultsOf(g.c).Forget()
	g.before = g.c.Stats()
}

// longTTL keeps a slow machine from refreshing a lock, or from finding a prefetched timestamp too
// old.
func longTTL(cfg *percolator.Config) { cfg.LockTTL = time.Hour }

// occupyPhaseTwo holds both of the requests that a table's phase two has under way at once; release
// lets them go.
func (g *guard) occupyPhaseTwo(commits ...func(g *guard, i int)) (release func()) {
	g.Helper()
	hold := percolatortest.NewHold()
	g.env.FaultsOf(g.c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows {
			return hold
		}
		return percolatortest.Pass
	})
	for n := range 2 * len(commits) {
		commits[n/2](g, n%2)
		hold.Wait(g, n+1)
	}
	return hold.Release
}

// inT, inPeople and inCityIndex commit one secondary in these tables.
func inT(g *guard, i int) {
	g.commit(func(tx *percolator.Txn) error { return g.set(tx, fmt.Sprint("first", i), fmt.Sprint("second", i)) })
}

func inPeople(g *guard, i int) {
	name := percolator.String("people", "name")
	g.commit(func(tx *percolator.Txn) error {
		return errors.Join(name.Set(tx, fmt.Sprint("first", i), "n"), name.Set(tx, fmt.Sprint("second", i), "n"))
	})
}

func inCityIndex(g *guard, i int) {
	g.commit(func(tx *percolator.Txn) error { return fixture.City.Set(tx, fmt.Sprint("somebody", i), "Oslo") })
}

// commit begins a transaction, calls f, and commits.
func (g *guard) commit(f func(tx *percolator.Txn) error, opts ...percolator.TxnOption) {
	g.Helper()
	tx := fixture.MustBegin(g, g.ctx, g.c, opts...)
	fixture.Must(g, f(tx))
	fixture.MustCommit(g, g.ctx, tx)
}

// fails begins a transaction, calls f, and wants its commit to fail so.
func (g *guard) fails(want error, f func(tx *percolator.Txn) error) {
	g.Helper()
	tx := fixture.MustBegin(g, g.ctx, g.c)
	fixture.Must(g, f(tx))
	fixture.WantErr(g, fixture.ErrOf(tx.Commit(g.ctx)), want)
}

// set writes column c of the rows.
func (g *guard) set(tx *percolator.Txn, rows ...string) error {
	for _, r := range rows {
		if err := tx.Set(fixture.Cell(r, "c"), []byte("v")); err != nil {
			return err
		}
	}
	return nil
}

// snapshot opens a snapshot of now.
func (g *guard) snapshot(opts ...percolator.ReadOption) *percolator.Snapshot {
	g.Helper()
	s, err := g.c.Snapshot(g.ctx, opts...)
	fixture.Must(g, err)
	return s
}

// all reads cells with one call.
func (g *guard) all(r percolator.Reader, cells ...percolator.Cell) {
	g.Helper()
	fixture.Must(g, fixture.ErrOf(r.GetMulti(g.ctx, cells...)))
}

// rowNames are n of them.
func rowNames(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fixture.Key(i)
	}
	return out
}

// cellsIn are the cells of a column.
func cellsIn(column string, rows ...string) []percolator.Cell {
	out := make([]percolator.Cell, len(rows))
	for i, r := range rows {
		out[i] = fixture.Cell(r, column)
	}
	return out
}
