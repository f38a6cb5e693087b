package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

func TestAsOf(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	first := fixture.Put(t, ctx, c, "r", "c", "first")
	env.Clock.Advance(10 * time.Minute)
	between := env.Clock.Now()
	env.Clock.Advance(10 * time.Minute)
	second := fixture.Put(t, ctx, c, "r", "c", "second")
	at := func(o percolator.ReadOption) *percolator.Snapshot {
		t.Helper()
		s, err := c.Snapshot(ctx, o)
		fixture.Must(t, err)
		return s
	}
	fixture.WantValue(t, ctx, at(percolator.AsOf(between)), fixture.Cell("r", "c"), "first")
	fixture.WantValue(t, ctx, at(percolator.AsOfTimestamp(first)), fixture.Cell("r", "c"), "first")
	fixture.WantValue(t, ctx, at(percolator.AsOfTimestamp(first-1)), fixture.Cell("r", "c"), "")
	fixture.WantValue(t, ctx, at(percolator.AsOfTimestamp(second-1)), fixture.Cell("r", "c"), "first")
	fixture.WantValue(t, ctx, at(percolator.AsOfTimestamp(second)), fixture.Cell("r", "c"), "second")
	if ts := at(percolator.AsOfTimestamp(first)).StartTimestamp(); ts != first {
		t.Errorf("the snapshot is at %d, want %d", ts, first)
	}
	seen := 0
	fixture.Must(t, c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		for e, err := range s.Scan(ctx, "t", percolator.All()) {
			fixture.Must(t, err)
			if seen++; string(e.Value) != "first" {
				t.Errorf("scanned %q", e.Value)
			}
		}
		return nil
	}, percolator.AsOf(between)))
	if seen != 1 {
		t.Errorf("scanned %d entries", seen)
	}

	fixture.WantErr(t, fixture.ErrOf(c.Snapshot(ctx, percolator.AsOf(env.Clock.Now().Add(time.Hour)))), percolator.ErrInvalidArgument)
	fixture.WantErr(t, fixture.ErrOf(c.Snapshot(ctx, percolator.AsOfTimestamp(tso.MaxTimestamp))), percolator.ErrInvalidArgument)
	fixture.WantErr(t, fixture.ErrOf(c.Snapshot(ctx, percolator.AsOfTimestamp(0))), percolator.ErrInvalidArgument)
	fixture.WantErr(t, fixture.ErrOf(c.Snapshot(ctx, percolator.AsOfTimestamp(-5))), percolator.ErrInvalidArgument)
	env.Clock.Advance(time.Hour)
	fixture.WantErr(t, fixture.ErrOf(c.Snapshot(ctx, percolator.AsOf(between))), percolator.ErrSnapshotTooOld)
	fixture.WantErr(t, c.View(ctx, func(context.Context, *percolator.Snapshot) error { return nil }, percolator.AsOfTimestamp(first)), percolator.ErrSnapshotTooOld)
}

// Whatever happens later, a snapshot answers the same.
func TestSnapshotIsRepeatable(t *testing.T) {
	t.Parallel()
	for _, batching := range []bool{true, false} {
		env := fixture.NewEnv(t, percolatortest.Configure(func(cfg *percolator.Config) { cfg.DisableBatching = !batching }))
		ctx, c := fixture.Context(t), env.Client
		fixture.Put(t, ctx, c, "a", "c", "1", "b", "c", "1")
		s, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		fixture.WantValue(t, ctx, s, fixture.Cell("a", "c"), "1") // cached from now on; b is not
		for i := range 20 {
			fixture.Put(t, ctx, c, "a", "c", fmt.Sprint(i), "b", "c", fmt.Sprint(i), "new", "c", "x")
		}
		fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error {
			return errors.Join(tx.Delete(fixture.Cell("a", "c")), tx.Delete(fixture.Cell("b", "c")))
		}))
		fixture.WantValue(t, ctx, s, fixture.Cell("a", "c"), "1")
		fixture.WantValue(t, ctx, s, fixture.Cell("b", "c"), "1")
		fixture.WantValue(t, ctx, s, fixture.Cell("new", "c"), "")
		again, err := c.Snapshot(ctx, percolator.AsOfTimestamp(s.StartTimestamp()))
		fixture.Must(t, err)
		fixture.WantValue(t, ctx, again, fixture.Cell("a", "c"), "1")
	}
}

func TestGetMultiOfManyRowsAndColumns(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	load(t, ctx, env, "t", 1200)
	fixture.Put(t, ctx, c, fixture.Key(3), "d", "d3", fixture.Key(700), "d", "d700", fixture.Key(700), "\xff", "ff", "other", "d", "other")
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return tx.Delete(fixture.Cell(fixture.Key(5), "c")) }))
	var cells []percolator.Cell
	want := map[int]string{}
	add := func(at percolator.Cell, value string) {
		want[len(cells)] = value
		cells = append(cells, at)
	}
	for i := range 1200 {
		if i != 5 {
			add(fixture.Cell(fixture.Key(i), "c"), fmt.Sprint(i))
		}
	}
	add(fixture.Cell(fixture.Key(5), "c"), "")
	add(fixture.Cell(fixture.Key(700), "\xff"), "ff")
	add(fixture.Cell(fixture.Key(700), "d"), "d700")
	add(fixture.Cell(fixture.Key(3), "d"), "d3")
	add(fixture.Cell(fixture.Key(4), "d"), "")
	add(fixture.Cell("none", "c"), "")
	add(fixture.Cell(fixture.Key(3), "d"), "d3") // twice
	add(percolator.Cell{Table: "u", Row: fixture.Key(3), Column: "c"}, "")
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	before := fixture.Tally(env, c)["ReadRows"]
	values, err := s.GetMulti(ctx, cells...)
	fixture.Must(t, err)
	for i, at := range cells {
		if string(values[i]) != want[i] || (values[i] == nil) != (want[i] == "") {
			t.Errorf("%s: %q, want %q", at, values[i], want[i])
		}
	}
	if n := fixture.Tally(env, c)["ReadRows"] - before; n > 8 {
		t.Errorf("%d requests for %d cells", n, len(cells))
	}
	if values, err := s.GetMulti(ctx); err != nil || len(values) != 0 {
		t.Errorf("nothing: %v, %v", values, err)
	}
}

// The predictor changes how many requests are sent, and never an answer.
func TestPrefetchingChangesNoAnswer(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	const n = 40
	tx := fixture.MustBegin(t, ctx, c)
	for i := range n {
		for _, col := range []string{"a", "b", "d"} {
			if col != "b" || i%3 != 0 {
				fixture.Must(t, tx.Set(fixture.Cell(fixture.Key(i), col), fmt.Append(nil, col, i)))
			}
		}
	}
	fixture.MustCommit(t, ctx, tx)
	fixture.Must(t, c.Flush(ctx))
	read := func(i int) int {
		s, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		before := fixture.Tally(env, c)["ReadRows"]
		for _, col := range []string{"a", "b", "d"} {
			want := fmt.Sprint(col, i)
			if col == "b" && i%3 == 0 {
				want = ""
			}
			fixture.WantValue(t, ctx, s, fixture.Cell(fixture.Key(i), col), want)
		}
		return fixture.Tally(env, c)["ReadRows"] - before
	}
	if r := read(0); r != 3 {
		t.Errorf("the first transaction sent %d reads, want 3", r)
	}
	for i := 1; i < n-1; i++ {
		read(i)
	}
	if r := read(n - 1); r != 1 {
		t.Errorf("a transaction whose shape is known sent %d reads, want 1", r)
	}
	// A prefetched column that is locked holds nobody up: only who asks for it waits.
	crash := env.NewClient()
	held := percolatortest.NewHold()
	env.FaultsOf(crash).Handle(fixture.AtMost(1, fixture.IsCommit, held))
	ctx2, cancel := context.WithCancel(ctx)
	defer cancel()
	lock := fixture.MustBegin(t, ctx, crash)
	fixture.Must(t, lock.Set(fixture.Cell(fixture.Key(7), "b"), []byte("later")))
	done := make(chan error, 1)
	go func() { done <- fixture.ErrOf(lock.Commit(ctx2)) }()
	held.Wait(t, 1)
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	fixture.WantValue(t, ctx, s, fixture.Cell(fixture.Key(7), "a"), "a7")
	short, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	fixture.WantErr(t, fixture.ErrOf(s.Get(short, fixture.Cell(fixture.Key(7), "b"))), percolator.ErrLocked, context.DeadlineExceeded)
	held.Release()
	fixture.Must(t, <-done)
	fixture.WantNow(t, ctx, c, fixture.Cell(fixture.Key(7), "b"), "later")
}
