package admin_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
)

func TestListLocks(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	fixture.CrashAfter(t, env, fixture.IsCommit, "b1", "b2") // b1 is committed
	fixture.CrashAfter(t, env, nil, "a1", "a2")
	env.Clock.Advance(fixture.LockTTL)
	fixture.CrashAfter(t, env, nil, "c1")
	fixture.Plant(t, ctx, env, "t", "b3", "lock", "c", 1000, "rubbish")
	fixture.Put(t, ctx, env.Client, "clean", "c", "x")
	c := env.NewClient()
	check := untouched(t, ctx, env, c, "t")
	list := func(r percolator.Range, opts admin.LockOptions) (got []string) {
		t.Helper()
		for l, err := range admin.New(c).ListLocks(ctx, "t", r, opts) {
			fixture.Must(t, err)
			got = append(got, fmt.Sprintf("%s %s", l.Cell.Row, l.State))
		}
		return got
	}
	all := []string{"a1 dead", "a2 dead", "b2 committed", "b3 undecodable", "c1 alive"}
	named := slices.Delete(slices.Clone(all), 3, 4) // no entry of the journal leads to b3
	for _, scan := range []bool{true, false} {
		opts, want := admin.LockOptions{PendingOptions: admin.PendingOptions{Scan: scan}}, all
		if !scan {
			want = named
		}
		if got := list(percolator.All(), opts); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if got := list(percolator.Between("a2", "b3"), opts); !slices.Equal(got, all[1:3]) {
			t.Errorf("a range: %q, want %q", got, all[1:3])
		}
		opts.OlderThan = fixture.LockTTL
		if got := list(percolator.All(), opts); !slices.Equal(got, want[:len(want)-1]) {
			t.Errorf("older than %v: %q, want %q", opts.OlderThan, got, want[:len(want)-1])
		}
		opts.OlderThan = math.MaxInt64
		if got := list(percolator.All(), opts); len(got) > 0 {
			t.Errorf("older than every lock can be: %q", got)
		}
	}
	if got := list(percolator.Row("b3"), admin.LockOptions{}); !slices.Equal(got, all[3:4]) {
		t.Errorf("a row that no entry names: %q, want %q", got, all[3:4])
	}
	check()
	for _, bad := range []struct {
		table string
		opts  admin.LockOptions
		want  error
	}{{"unknown", admin.LockOptions{}, percolator.ErrSchemaMismatch}, {"t", admin.LockOptions{OlderThan: -1}, percolator.ErrInvalidArgument}} {
		for _, err := range admin.New(c).ListLocks(ctx, bad.table, percolator.All(), bad.opts) {
			fixture.WantErr(t, err, bad.want)
		}
	}
}

// TestListManyLocks: several pages, a transaction is looked at once for each page, and a reader may
// stop anywhere.
func TestListManyLocks(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	const n = 1100
	var rows []string
	for i := range n {
		rows = append(rows, fixture.Key(i))
	}
	fixture.CrashAfter(t, env, nil, rows...)
	c := env.NewClient()
	env.FaultsOf(c).Forget()
	var got []string
	for l, err := range admin.New(c).ListLocks(ctx, "t", percolator.All(), admin.LockOptions{}) {
		fixture.Must(t, err)
		got = append(got, l.Cell.Row)
	}
	if !slices.Equal(got, rows) {
		t.Fatalf("%d locks, want %d in order", len(got), n)
	}
	if requests := fixture.Tally(env, c)["ReadRows"]; requests != 6 {
		t.Errorf("%d reads, want 3 pages and a primary for each", requests)
	}
	for range admin.New(c).ListLocks(ctx, "t", percolator.All(), admin.LockOptions{}) {
		break
	}
}

// TestWorkersLeavesTheDead: unlike a worker it erases nothing.
func TestWorkersLeavesTheDead(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	for _, name := range []string{"one", "two"} {
		_, err := membership.Directory{Engine: env.Client.Engine()}.Register(ctx, model.WorkerInfo{Name: name}, membership.Workers{})
		fixture.Must(t, err)
		env.Clock.Advance(20 * time.Second)
	}
	c := env.NewClient()
	check := untouched(t, ctx, env, c, "t")
	seen, err := admin.New(c).Workers(ctx)
	fixture.Must(t, err)
	if len(seen.Live) != 1 || seen.Live[0].Name != "two" {
		t.Errorf("%+v", seen.Live)
	}
	check()
	_, err = membership.Directory{Engine: c.Engine()}.Workers(ctx)
	fixture.Must(t, err)
	if rows := wholeTable(t, ctx, env, "percolator_meta"); strings.Contains(fmt.Sprint(rows), "worker:one") {
		t.Error("Workers leaves the dead: this test shows nothing")
	}
}
