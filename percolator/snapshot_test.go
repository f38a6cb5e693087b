package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/commit"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

func TestAsOf(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, c := testContext(t), env.Client
	first := put(t, ctx, c, "r", "c", "first")
	env.Clock.Advance(10 * time.Minute)
	between := env.Clock.Now()
	env.Clock.Advance(10 * time.Minute)
	second := put(t, ctx, c, "r", "c", "second")
	at := func(o percolator.ReadOption) *percolator.Snapshot {
		t.Helper()
		s, err := c.Snapshot(ctx, o)
		must(t, err)
		return s
	}
	wantValue(t, ctx, at(percolator.AsOf(between)), cell("r", "c"), "first")
	wantValue(t, ctx, at(percolator.AsOfTimestamp(first)), cell("r", "c"), "first")
	wantValue(t, ctx, at(percolator.AsOfTimestamp(first-1)), cell("r", "c"), "")
	wantValue(t, ctx, at(percolator.AsOfTimestamp(second-1)), cell("r", "c"), "first")
	wantValue(t, ctx, at(percolator.AsOfTimestamp(second)), cell("r", "c"), "second")
	if ts := at(percolator.AsOfTimestamp(first)).StartTimestamp(); ts != first {
		t.Errorf("the snapshot is at %d, want %d", ts, first)
	}
	seen := 0
	must(t, c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		for e, err := range s.Scan(ctx, "t", percolator.All()) {
			must(t, err)
			if seen++; string(e.Value) != "first" {
				t.Errorf("scanned %q", e.Value)
			}
		}
		return nil
	}, percolator.AsOf(between)))
	if seen != 1 {
		t.Errorf("scanned %d entries", seen)
	}

	wantErr(t, errOf(c.Snapshot(ctx, percolator.AsOf(env.Clock.Now().Add(time.Hour)))), percolator.ErrInvalidArgument)
	wantErr(t, errOf(c.Snapshot(ctx, percolator.AsOfTimestamp(tso.MaxTimestamp))), percolator.ErrInvalidArgument)
	wantErr(t, errOf(c.Snapshot(ctx, percolator.AsOfTimestamp(0))), percolator.ErrInvalidArgument)
	wantErr(t, errOf(c.Snapshot(ctx, percolator.AsOfTimestamp(-5))), percolator.ErrInvalidArgument)
	env.Clock.Advance(time.Hour)
	wantErr(t, errOf(c.Snapshot(ctx, percolator.AsOf(between))), percolator.ErrSnapshotTooOld)
	wantErr(t, c.View(ctx, func(context.Context, *percolator.Snapshot) error { return nil }, percolator.AsOfTimestamp(first)), percolator.ErrSnapshotTooOld)
}

// Whatever happens later, a snapshot answers the same.
func TestSnapshotIsRepeatable(t *testing.T) {
	t.Parallel()
	for _, batching := range []bool{true, false} {
		env := newEnv(t, percolatortest.Configure(func(cfg *percolator.Config) { cfg.DisableBatching = !batching }))
		ctx, c := testContext(t), env.Client
		put(t, ctx, c, "a", "c", "1", "b", "c", "1")
		s, err := c.Snapshot(ctx)
		must(t, err)
		wantValue(t, ctx, s, cell("a", "c"), "1") // cached from now on; b is not
		for i := range 20 {
			put(t, ctx, c, "a", "c", fmt.Sprint(i), "b", "c", fmt.Sprint(i), "new", "c", "x")
		}
		must(t, update(ctx, c, func(tx *percolator.Txn) error {
			return errors.Join(tx.Delete(cell("a", "c")), tx.Delete(cell("b", "c")))
		}))
		wantValue(t, ctx, s, cell("a", "c"), "1")
		wantValue(t, ctx, s, cell("b", "c"), "1")
		wantValue(t, ctx, s, cell("new", "c"), "")
		again, err := c.Snapshot(ctx, percolator.AsOfTimestamp(s.StartTimestamp()))
		must(t, err)
		wantValue(t, ctx, again, cell("a", "c"), "1")
	}
}

func TestGetMultiOfManyRowsAndColumns(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, c := testContext(t), env.Client
	load(t, ctx, env, "t", 1200)
	put(t, ctx, c, key(3), "d", "d3", key(700), "d", "d700", key(700), "\xff", "ff", "other", "d", "other")
	must(t, update(ctx, c, func(tx *percolator.Txn) error { return tx.Delete(cell(key(5), "c")) }))
	var cells []percolator.Cell
	want := map[int]string{}
	add := func(at percolator.Cell, value string) {
		want[len(cells)] = value
		cells = append(cells, at)
	}
	for i := range 1200 {
		if i != 5 {
			add(cell(key(i), "c"), fmt.Sprint(i))
		}
	}
	add(cell(key(5), "c"), "")
	add(cell(key(700), "\xff"), "ff")
	add(cell(key(700), "d"), "d700")
	add(cell(key(3), "d"), "d3")
	add(cell(key(4), "d"), "")
	add(cell("none", "c"), "")
	add(cell(key(3), "d"), "d3") // twice
	add(percolator.Cell{Table: "u", Row: key(3), Column: "c"}, "")
	s, err := c.Snapshot(ctx)
	must(t, err)
	before := tally(env, c)["ReadRows"]
	values, err := s.GetMulti(ctx, cells...)
	must(t, err)
	for i, at := range cells {
		if string(values[i]) != want[i] || (values[i] == nil) != (want[i] == "") {
			t.Errorf("%s: %q, want %q", at, values[i], want[i])
		}
	}
	if n := tally(env, c)["ReadRows"] - before; n > 8 {
		t.Errorf("%d requests for %d cells", n, len(cells))
	}
	if values, err := s.GetMulti(ctx); err != nil || len(values) != 0 {
		t.Errorf("nothing: %v, %v", values, err)
	}
}

// The predictor changes how many requests are sent, and never an answer.
func TestPrefetching(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, c := testContext(t), env.Client
	const n = 40
	tx := mustBegin(t, ctx, c)
	for i := range n {
		for _, col := range []string{"a", "b", "d"} {
			if col != "b" || i%3 != 0 {
				must(t, tx.Set(cell(key(i), col), fmt.Append(nil, col, i)))
			}
		}
	}
	mustCommit(t, ctx, tx)
	must(t, c.Flush(ctx))
	read := func(i int) int {
		s, err := c.Snapshot(ctx)
		must(t, err)
		before := tally(env, c)["ReadRows"]
		for _, col := range []string{"a", "b", "d"} {
			want := fmt.Sprint(col, i)
			if col == "b" && i%3 == 0 {
				want = ""
			}
			wantValue(t, ctx, s, cell(key(i), col), want)
		}
		return tally(env, c)["ReadRows"] - before
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
	env.FaultsOf(crash).Handle(atMost(1, isCommit, held))
	ctx2, cancel := context.WithCancel(ctx)
	defer cancel()
	lock := mustBegin(t, ctx, crash)
	must(t, lock.Set(cell(key(7), "b"), []byte("later")))
	done := make(chan error, 1)
	go func() { done <- errOf(lock.Commit(ctx2)) }()
	held.Wait(t, 1)
	s, err := c.Snapshot(ctx)
	must(t, err)
	wantValue(t, ctx, s, cell(key(7), "a"), "a7")
	short, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	wantErr(t, errOf(s.Get(short, cell(key(7), "b"))), percolator.ErrLocked, context.DeadlineExceeded)
	held.Release()
	must(t, <-done)
	wantNow(t, ctx, c, cell(key(7), "b"), "later")
}

// A blind transaction reads nothing, and costs no request for its start timestamp once one is at hand.
func TestBlind(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, c := testContext(t), env.Client
	tx := mustBegin(t, ctx, c, percolator.Blind())
	wantErr(t, errOf(tx.Get(ctx, cell("r", "c"))), percolator.ErrInvalidArgument)
	wantErr(t, errOf(tx.GetMulti(ctx, cell("r", "c"))), percolator.ErrInvalidArgument)
	wantErr(t, errOf(tx.GetForUpdate(ctx, cell("r", "c"))), percolator.ErrInvalidArgument)
	wantErr(t, firstError(tx.Scan(ctx, "t", percolator.All())), percolator.ErrInvalidArgument)
	wantErr(t, firstError(tx.ScanIndex(ctx, "people", "city", percolator.All())), percolator.ErrInvalidArgument)
	wantErr(t, errOf((*commit.Txn)(tx).Acknowledge(ctx, cell("r", "seen"), "O", []string{"O"})), percolator.ErrInvalidArgument)
	wantErr(t, tx.Insert(cell("r", "c"), nil), percolator.ErrInvalidArgument)
	must(t, tx.Set(cell("r", "c"), []byte("v")))
	must(t, tx.Delete(cell("r", "d")))
	mustCommit(t, ctx, tx)
	wantNow(t, ctx, c, cell("r", "c"), "v")

	// Concurrent writers still conflict.
	a, b := mustBegin(t, ctx, c, percolator.Blind()), mustBegin(t, ctx, env.NewClient(), percolator.Blind())
	must(t, a.Set(cell("x", "c"), []byte("a")))
	must(t, b.Set(cell("x", "c"), []byte("b")))
	mustCommit(t, ctx, a)
	wantErr(t, errOf(b.Commit(ctx)), percolator.ErrConflict)
}

func TestCallsWithEndedContexts(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, c := testContext(t), env.Client
	put(t, ctx, c, "r", "c", "v")
	tx := mustBegin(t, ctx, c)
	s, err := c.Snapshot(ctx)
	must(t, err)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	late, stop := context.WithDeadline(ctx, time.Now().Add(-time.Second))
	defer stop()
	for want, ended := range map[error]context.Context{context.Canceled: canceled, context.DeadlineExceeded: late} {
		for name, err := range map[string]error{
			"Begin":              errOf(c.Begin(ended)),
			"Snapshot":           errOf(c.Snapshot(ended)),
			"View":               c.View(ended, func(context.Context, *percolator.Snapshot) error { return nil }),
			"Update":             update(ended, c, func(*percolator.Txn) error { return nil }),
			"Snapshot.Get":       errOf(s.Get(ended, cell("r", "c"))),
			"Snapshot.GetMulti":  errOf(s.GetMulti(ended, cell("r", "c"), cell("s", "c"), cell("s", "d"))),
			"Snapshot.Scan":      firstError(s.Scan(ended, "t", percolator.All())),
			"Snapshot.ScanIndex": firstError(s.ScanIndex(ended, "people", "city", percolator.All())),
			"Txn.Get":            errOf(tx.Get(ended, cell("r", "c"))),
			"Txn.Scan":           firstError(tx.Scan(ended, "t", percolator.All())),
			"Txn.Acknowledge":    errOf((*commit.Txn)(tx).Acknowledge(ended, cell("r", "seen"), "O", []string{"O"})),
			"SampleRowKeys":      errOf(admin.New(c).SampleRowKeys(ended, "t")),
			"ClearNotification":  admin.New(c).ClearNotification(ended, cell("r", "seen"), 1),
			"CreateSchema":       percolator.CreateSchema(ended, env.Project, env.Instance, testSchema(), env.Options()...),
			"NewClient":          errOf(percolator.NewClient(ended, percolator.Config{Project: env.Project, Instance: env.Instance, Oracle: env.Oracle}, env.Options()...)),
		} {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
		for _, err := range admin.New(c).ScanPending(ended, "t", percolator.All()) {
			wantErr(t, err, want)
		}
	}
	wantValue(t, ctx, tx, cell("r", "c"), "v") // still usable
}

func TestClosedClient(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx := testContext(t)
	c := env.NewClient()
	put(t, ctx, c, "r", "c", "v", "s", "c", "v")
	s, err := c.Snapshot(ctx)
	must(t, err)
	tx := mustBegin(t, ctx, c)
	must(t, c.Close())
	must(t, c.Close())
	if n := cellsOf(t, ctx, env, "t", "lock"); n != 0 {
		t.Errorf("%d locks left: Close did not wait for phase two", n)
	}
	for name, err := range map[string]error{
		"Begin":              errOf(c.Begin(ctx)),
		"Begin blind":        errOf(c.Begin(ctx, percolator.Blind())),
		"Snapshot":           errOf(c.Snapshot(ctx)),
		"Update":             update(ctx, c, func(*percolator.Txn) error { return nil }),
		"Snapshot.Get":       errOf(s.Get(ctx, cell("r", "c"))),
		"Snapshot.Scan":      firstError(s.Scan(ctx, "t", percolator.All())),
		"Snapshot.ScanIndex": firstError(s.ScanIndex(ctx, "people", "city", percolator.All())),
		"Txn.Get":            errOf(tx.Get(ctx, cell("r", "c"))),
		"SampleRowKeys":      errOf(admin.New(c).SampleRowKeys(ctx, "t")),
		"Acknowledge":        errOf((*commit.Txn)(tx).Acknowledge(ctx, cell("r", "seen"), "O", []string{"O"})),
	} {
		if !errors.Is(err, percolator.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, err := range admin.New(c).ScanPending(ctx, "t", percolator.All()) {
		wantErr(t, err, percolator.ErrClosed)
	}
}
