package combinequeue_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/combinequeue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A writer dies at each of its writes in turn. What it added counts for all of its keys or for
// none, and counts if it was told that it had committed.
func TestCrashOfAWriter(t *testing.T) {
	t.Parallel()
	e := newEnv(t, config())
	w, _ := e.fold(e.client)
	known, lost := int64(0), 0 // known: for certain
	e.DieAtEach(func(_ context.Context, _ int, c *percolator.Client) error {
		err := e.tryAdd(c, keys(3)...)
		if err == nil {
			known++
		} else {
			lost++
		}
		return err
	}, func(_ context.Context, run int, _ *percolator.Client) error {
		e.idle(w)
		total, pending := e.read(keys(3)[0])
		for _, k := range keys(3)[1:] {
			if other, _ := e.read(k); other != total {
				return fmt.Errorf("%d of %q and %d of %q", total, keys(3)[0], other, k)
			}
		}
		if total < known || total > int64(run) || pending != 0 {
			return fmt.Errorf("folded %d, pending %d, of which %d are certain", total, pending, known)
		}
		return nil
	})
	if lost < 3 {
		t.Errorf("only %d writers died before they were told", lost)
	}
}

// A worker dies at each of its writes in turn, another one goes on: nothing is lost and nothing
// doubled.
func TestCrashOfAFold(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	e := newEnv(t, config())
	added := int64(0)
	e.DieAtEach(func(ctx context.Context, _ int, c *percolator.Client) error {
		for range 3 {
			e.add(e.client, "a", "b")
			added++
		}
		e.client.Flush(e.ctx)
		_, stop := e.fold(c)
		e.until("the worker dies, or is done", func() bool { return ctx.Err() != nil || e.clean() })
		stop()
		return nil
	}, func(_ context.Context, _ int, c *percolator.Client) error {
		survivor, stop := e.fold(c)
		e.idle(survivor)
		stop()
		for _, k := range []string{"a", "b"} {
			if total, pending := e.read(k); total != added || pending != 0 {
				return fmt.Errorf("%s has %d and %d pending, want %d and 0", k, total, pending, added)
			}
		}
		return nil
	})
}

// The fold's commit is applied, and its answer is lost: the run that follows finds nothing to fold.
func TestFoldWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	e := newEnv(t, config())
	e.add(e.client, "k")
	c := e.NewClient()
	lost := false
	e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.CheckAndMutateRow && r.Sets("write") && !lost {
			lost = true
			return percolatortest.LoseAnswer
		}
		return percolatortest.Pass
	})
	w, _ := e.fold(c)
	e.idle(w)
	if total, pending := e.read("k"); total != 1 || pending != 0 || !lost {
		t.Errorf("folded %d, pending %d, want 1 and 0 (an answer was lost: %v)", total, pending, lost)
	}
}

// stuck begins a transaction of a client of its own whose commit request is held.
func (e *env) stuck() (tx *percolator.Txn, hold *percolatortest.Hold) {
	e.Helper()
	c, hold := e.NewClient(), percolatortest.NewHold()
	e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.CheckAndMutateRow && r.Sets("write") {
			return hold
		}
		return percolatortest.Pass
	})
	tx, err := c.Begin(e.ctx)
	if err != nil {
		e.Fatal(err)
	}
	return tx, hold
}

// A writer is stopped between its prewrite and its commit: the rest of its slice is folded
// meanwhile, and it is folded when it goes on.
func TestFoldPassesALockedRow(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.LockWait = 20 * time.Millisecond
	e := newEnv(t, cfg)
	tx, hold := e.stuck()
	if err := e.queue.Add(tx, "k", 1); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := tx.Commit(e.ctx); done <- err }()
	hold.Wait(t, 1)
	w, _ := e.fold(e.client)
	elsewhere := int64(0)
	for range 32 {
		other, err := e.client.Begin(e.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if combinequeue.ShardOf(other.StartTimestamp()) != combinequeue.ShardOf(tx.StartTimestamp()) {
			elsewhere++
		}
		if err := e.queue.Add(other, "k", 1); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Commit(e.ctx); err != nil {
			t.Fatal(err)
		}
	}
	e.until("the other rows are folded", func() bool { return e.folded("k") >= elsewhere })
	hold.Release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	e.idle(w)
	if total, pending := e.read("k"); total != 33 || pending != 0 || elsewhere == 0 {
		t.Errorf("folded %d, pending %d, want 33 and 0; %d in other rows", total, pending, elsewhere)
	}
}

// A lock is met after a page of the slice has been read: what was read counts once.
func TestFoldThatMeetsALockOnItsWay(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.LockWait, cfg.MaxBytes = 20*time.Millisecond, 32<<20
	const size = 512 << 10 // of which a page, of 4 MiB, does not hold all
	blobs, err := combinequeue.New(combinequeue.Config[[]byte]{
		Values: percolator.Bytes("queue", "sum"), Combine: func(a, b []byte) []byte { return append(a[:len(a):len(a)], b...) },
		LockWait: cfg.LockWait, MaxBytes: cfg.MaxBytes,
	})
	if err != nil {
		t.Fatal(err)
	}
	e := newEnv(t, cfg)
	tx, hold := e.stuck()
	for combinequeue.ShardOf(tx.StartTimestamp()) != 15 { // the last row
		if tx, hold = e.stuck(); e.ctx.Err() != nil {
			t.Fatal(e.ctx.Err())
		}
	}
	add := func(tx *percolator.Txn) error {
		return errors.Join(blobs.Add(tx, "k", make([]byte, size)), func() error { _, err := tx.Commit(e.ctx); return err }())
	}
	done := make(chan error, 1)
	go func() { done <- add(tx) }()
	hold.Wait(t, 1)
	shards := map[int]bool{}
	for len(shards) < 12 {
		other, err := e.client.Begin(e.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if s := combinequeue.ShardOf(other.StartTimestamp()); s == 15 || shards[s] {
			continue
		} else {
			shards[s] = true
		}
		if err := add(other); err != nil {
			t.Fatal(err)
		}
	}
	var folded atomic.Int64
	r := observers.NewRegistry()
	blobs.Observe(r, func(_ context.Context, tx *percolator.Txn, _ string, v []byte) error {
		folded.Store(int64(len(v) / size))
		return tx.Set(percolator.Cell{Table: "totals", Row: "k", Column: fmt.Sprint(tx.StartTimestamp())}, fmt.Append(nil, len(v)/size))
	})
	w, _ := e.start(e.client, r)
	e.until("a fold", func() bool { return folded.Load() > 0 })
	if n := folded.Load(); n != 12 {
		t.Errorf("the first fold took %d contributions, want 12", n)
	}
	hold.Release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	e.idle(w)
}

// clean tells whether neither a notification nor a lock is left. It waits for nothing.
func (e *env) clean() bool {
	e.Helper()
	for _, err := range admin.New(e.client).ScanPending(e.ctx, "queue", percolator.All()) {
		if err != nil {
			e.Fatal(err)
		}
		return false
	}
	return true
}

// folded is the total of a key.
func (e *env) folded(key string) int64 {
	e.Helper()
	s, err := e.client.Snapshot(e.ctx)
	if err != nil {
		e.Fatal(err)
	}
	n, err := e.total.GetOr(e.ctx, s, key, 0)
	if err != nil {
		e.Fatal(err)
	}
	return n
}

// An apply function that fails writes nothing, and what it was called for stays pending.
func TestFailedFoldsStayPending(t *testing.T) {
	t.Parallel()
	e := newEnv(t, config())
	e.add(e.client, "k")
	w := e.failing(errors.New("no"))
	e.idle(w) // parked
	if total, pending := e.read("k"); total != 0 || pending != 1 || w.Stats().Parked != 1 {
		t.Errorf("folded %d, pending %d, %d parked, want 0, 1 and 1", total, pending, w.Stats().Parked)
	}
}
