package combinequeue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/combinequeue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

const (
	writers = 64
	each    = 4
)

// 64 writers add to one key while it is folded: not one conflict, and every contribution counts
// once. Each transaction is tried once, so a conflict would show.
func TestWritersOfOneKeyDoNotConflict(t *testing.T) {
	t.Parallel()
	e := newEnv(t, config())
	w, _ := e.fold(e.client)
	var conflicts, failures atomic.Int64
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for range each {
				switch err := e.tryAdd(e.client, "broker"); {
				case errors.Is(err, percolator.ErrConflict):
					conflicts.Add(1)
				case err != nil:
					failures.Add(1)
				}
			}
		})
	}
	group.Wait()
	e.idle(w)
	total, pending := e.read("broker")
	if conflicts.Load() != 0 || failures.Load() != 0 {
		t.Errorf("%d conflicts and %d other failures among %d transactions that add", conflicts.Load(), failures.Load(), writers*each)
	}
	if total != writers*each || pending != 0 {
		t.Errorf("folded %d, pending %d, want %d and 0", total, pending, writers*each)
	}
	if s := w.Stats(); s.Runs >= writers*each {
		t.Errorf("%d runs for %d contributions: nothing was folded together", s.Runs, writers*each)
	}
}

// The same work with a counter that is read and written, for comparison: of transactions that run
// at once, one commits.
func TestPlainCounterConflicts(t *testing.T) {
	t.Parallel()
	const writers = 16
	e := newEnv(t, config())
	run := func(write func(ctx context.Context, tx *percolator.Txn) error) (conflicts int) {
		txs := make([]*percolator.Txn, writers)
		for i := range txs {
			tx, err := e.client.Begin(e.ctx)
			if err == nil {
				err = write(e.ctx, tx)
			}
			if err != nil {
				t.Fatal(err)
			}
			txs[i] = tx
		}
		for _, tx := range txs { // all of them have started by now
			switch _, err := tx.Commit(e.ctx); {
			case errors.Is(err, percolator.ErrConflict):
				conflicts++
			case err != nil:
				t.Fatal(err)
			}
		}
		return conflicts
	}
	if n := run(func(ctx context.Context, tx *percolator.Txn) error {
		n, err := e.total.GetOr(ctx, tx, "plain", 0)
		if err != nil {
			return err
		}
		return e.total.Set(tx, "plain", n+1)
	}); n != writers-1 {
		t.Errorf("a plain counter: %d conflicts among %d transactions, want all but one", n, writers)
	}
	if n := run(func(_ context.Context, tx *percolator.Txn) error { return e.queue.Add(tx, "queued", 1) }); n != 0 {
		t.Errorf("a combine queue: %d conflicts, want none", n)
	}
	if _, pending := e.read("queued"); pending != writers {
		t.Errorf("%d pending, want %d", pending, writers)
	}
}

// In every snapshot, the total and what is pending are what had been committed by then, while two
// workers fold.
func TestEverySnapshotIsExact(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.MaxEntries = 5 // so that a slice takes several folds
	e := newEnv(t, cfg)
	first, _ := e.fold(e.client)
	second, _ := e.fold(e.NewClient())

	var mu sync.Mutex
	var commits []tso.Timestamp
	var group sync.WaitGroup
	for range 6 {
		c := e.NewClient()
		group.Go(func() {
			for range 12 {
				ts, err := c.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error {
					return errors.Join(e.queue.Add(tx, "a", 1), e.queue.Add(tx, "b", 1))
				}, percolator.Blind())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				commits = append(commits, ts)
				mu.Unlock()
			}
		})
	}
	written := make(chan struct{})
	go func() { group.Wait(); close(written) }()
	reads := map[tso.Timestamp]int64{}
	folding := 0
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for done := false; !done; {
				select {
				case <-written:
					done = true
				default:
				}
				s, err := e.client.Snapshot(e.ctx)
				if err != nil {
					t.Error(err)
					return
				}
				n, err := e.queue.Value(e.ctx, s, e.total, "a")
				if err != nil && !errors.Is(err, percolator.ErrNotFound) {
					t.Error(err)
					return
				}
				folded, err := e.total.GetOr(e.ctx, s, "a", 0)
				mu.Lock()
				reads[s.StartTimestamp()] = n
				if err == nil && folded > 0 && folded < n {
					folding++
				}
				mu.Unlock()
			}
		})
	}
	readers.Wait()
	e.idle(first)
	e.idle(second)
	for at, n := range reads {
		want := int64(0)
		for _, ts := range commits {
			if ts <= at {
				want++
			}
		}
		if n != want {
			t.Errorf("snapshot %d: total and pending are %d, but %d transactions had committed", at, n, want)
		}
	}
	for _, key := range []string{"a", "b"} {
		if total, pending := e.read(key); total != 72 || pending != 0 {
			t.Errorf("%s: folded %d, pending %d, want 72 and 0", key, total, pending)
		}
	}
	t.Logf("%d snapshots, %d of them in the midst of folding", len(reads), folding)
}

// A fold takes no more than its limits, and what it leaves is folded afterwards without a further
// contribution.
func TestFoldsAreBounded(t *testing.T) {
	t.Parallel()
	const keys, times = 10, 6
	for name, limit := range map[string]func(*combinequeue.Config[int64]){
		"entries": func(c *combinequeue.Config[int64]) { c.MaxEntries = 4 },
		"keys":    func(c *combinequeue.Config[int64]) { c.MaxKeys = 3 },
		"bytes":   func(c *combinequeue.Config[int64]) { c.MaxBytes = 60 }, // two of 16 + 1 + 8 bytes
		"tiny":    func(c *combinequeue.Config[int64]) { c.MaxBytes = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config()
			cfg.Buckets = 1
			limit(&cfg)
			e := newEnv(t, cfg)
			for range times {
				var all []string
				for k := range keys {
					all = append(all, fmt.Sprint(k))
				}
				e.add(e.client, all...)
			}
			var mu sync.Mutex
			var mostKeys, mostEntries int
			into := e.queue.Into(e.total)
			r := observers.NewRegistry()
			e.queue.ObserveBatch(r, func(ctx context.Context, tx *percolator.Txn, sums []combinequeue.Sum[int64]) error {
				entries := 0
				for _, s := range sums {
					entries += s.Entries
				}
				mu.Lock()
				defer mu.Unlock()
				mostKeys, mostEntries = max(mostKeys, len(sums)), max(mostEntries, entries)
				return into(ctx, tx, sums)
			})
			w, _ := e.start(e.client, r)
			e.idle(w)
			for k := range keys {
				if total, pending := e.read(fmt.Sprint(k)); total != times || pending != 0 {
					t.Errorf("%d: folded %d, pending %d, want %d and 0", k, total, pending, times)
				}
			}
			got := map[string][2]int{
				"entries": {mostEntries, 4}, "keys": {mostKeys, 3}, "bytes": {mostEntries, 2}, "tiny": {mostEntries, 1},
			}[name]
			if got[0] != got[1] {
				t.Errorf("the largest fold took %d, want the limit, %d", got[0], got[1])
			}
		})
	}
}

// Contributions of long ago and of now are folded by the runs of their own slices.
func TestSlicesOfTime(t *testing.T) {
	t.Parallel()
	e := newEnv(t, config())
	late, err := e.client.Begin(e.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.queue.Add(late, "k", 100); err != nil {
		t.Fatal(err)
	}
	w, _ := e.fold(e.client)
	for range 5 {
		e.Clock.Advance(5 * time.Second)
		e.add(e.client, "k")
	}
	e.idle(w)
	if total, pending := e.read("k"); total != 5 || pending != 0 {
		t.Fatalf("folded %d, pending %d, want 5 and 0", total, pending)
	}
	if _, err := late.Commit(e.ctx); err != nil { // started in a slice that seemed to be done
		t.Fatal(err)
	}
	e.idle(w)
	if total, pending := e.read("k"); total != 105 || pending != 0 {
		t.Errorf("folded %d, pending %d, want 105 and 0", total, pending)
	}
}

// A transaction writes one row for each bucket at most, and one cell for each key however often it
// adds.
func TestRowsAndCellsOfATransaction(t *testing.T) {
	t.Parallel()
	e := newEnv(t, config())
	faults := e.FaultsOf(e.client)
	faults.Forget()
	e.add(e.client, slices.Repeat(keys(50), 3)...)
	prewrites := 0
	for _, r := range faults.Requests() {
		if r.Method == percolatortest.CheckAndMutateRow && r.Sets("lock") {
			prewrites++
		}
	}
	if prewrites == 0 || prewrites > 16 {
		t.Errorf("50 keys took %d prewrites, want one for each bucket, 16 at most", prewrites)
	}
	seen := map[string]int64{}
	err := e.client.View(e.ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		for c, err := range e.queue.All(ctx, s) {
			if err != nil {
				return err
			}
			seen[c.Key] += c.Value * int64(100*c.Entries)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys(50) {
		if seen[k] != 300 {
			t.Errorf("%s: %d, want one cell with 3", k, seen[k])
		}
		if _, pending := e.read(k); pending != 3 {
			t.Errorf("%s: %d pending, want 3", k, pending)
		}
	}
}

func keys(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("key %d", i))
	}
	return list
}

// Any bytes can be a key, and no two keys are mixed up.
func TestKeysAreAnyBytes(t *testing.T) {
	t.Parallel()
	e := newEnv(t, config())
	all := []string{"\x00", "\x01", "\x01\x01", "\x01\x02", "\x00\x01\x02", "\xff", "ä", strings.Repeat("x", combinequeue.MaxKeyBytes)}
	for i, k := range all {
		tx, err := e.client.Begin(e.ctx, percolator.Blind())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(e.queue.Add(tx, k, 1), e.queue.Add(tx, k, int64(i))); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Commit(e.ctx); err != nil {
			t.Fatal(err)
		}
	}
	w, _ := e.fold(e.client)
	e.idle(w)
	for i, k := range all {
		if total, pending := e.read(k); total != int64(i)+1 || pending != 0 {
			t.Errorf("%.10q: folded %d, pending %d, want %d and 0", k, total, pending, i+1)
		}
	}
}

// Goroutines of one transaction add to one key: nothing is overwritten.
func TestOneTransactionAddsConcurrently(t *testing.T) {
	t.Parallel()
	e := newEnv(t, config())
	tx, err := e.client.Begin(e.ctx)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			if err := e.queue.Add(tx, "k", 1); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if own, err := e.queue.Pending(e.ctx, tx, "k"); err != nil || own.Value != writers || own.Entries != 1 {
		t.Errorf("the transaction sees %+v of its own, %v", own, err)
	}
	if _, err := tx.Commit(e.ctx); err != nil {
		t.Fatal(err)
	}
	if _, pending := e.read("k"); pending != writers {
		t.Errorf("%d pending, want %d", pending, writers)
	}
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*combinequeue.Config[int64]){
		"no values":        func(c *combinequeue.Config[int64]) { c.Values = percolator.Column[int64]{} },
		"no name":          func(c *combinequeue.Config[int64]) { c.Values.Name = "" },
		"a long name":      func(c *combinequeue.Config[int64]) { c.Values.Name = strings.Repeat("x", combinequeue.MaxNameBytes+1) },
		"not UTF-8":        func(c *combinequeue.Config[int64]) { c.Values.Name = "a\xff" },
		"no Combine":       func(c *combinequeue.Config[int64]) { c.Combine = nil },
		"negative buckets": func(c *combinequeue.Config[int64]) { c.Buckets = -1 },
		"many buckets":     func(c *combinequeue.Config[int64]) { c.Buckets = combinequeue.MaxBuckets + 1 },
		"many entries":     func(c *combinequeue.Config[int64]) { c.MaxEntries = 20_001 },
		"negative keys":    func(c *combinequeue.Config[int64]) { c.MaxKeys = -1 },
		"negative bytes":   func(c *combinequeue.Config[int64]) { c.MaxBytes = -1 },
		"a negative wait":  func(c *combinequeue.Config[int64]) { c.LockWait = -1 },
	} {
		cfg := config()
		change(&cfg)
		if _, err := combinequeue.New(cfg); !errors.Is(err, percolator.ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e := newEnv(t, config())
	tx, err := e.client.Begin(e.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.queue.Add(tx, "", 1); !errors.Is(err, percolator.ErrInvalidArgument) {
		t.Errorf("an empty key: %v", err)
	}
	if err := e.queue.Add(tx, strings.Repeat("\x00", combinequeue.MaxKeyBytes/2+1), 1); !errors.Is(err, percolator.ErrTooLarge) {
		t.Errorf("a long key: %v", err)
	}
	undeclared := config()
	undeclared.Values.Table = "other"
	other, err := combinequeue.New(undeclared)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Add(tx, "k", 1); !errors.Is(err, percolator.ErrSchemaMismatch) || !strings.Contains(err.Error(), "add queue.Table()") {
		t.Errorf("a table that the schema lacks: %v", err)
	}
	r := observers.NewRegistry()
	other.Observe(r, func(context.Context, *percolator.Txn, string, int64) error { return nil })
	_, err = observers.NewWorker(e.client, r, observers.Config{})
	if !errors.Is(err, percolator.ErrSchemaMismatch) || strings.Count(err.Error(), "has no table \"other\"") != 1 || !strings.Contains(err.Error(), "queue.Table()") {
		t.Errorf("a worker for a table that the schema lacks: %v", err)
	}
	if err := e.queue.Add(tx, "k", 1); err != nil {
		t.Errorf("after an error: %v", err)
	}
	if _, err := tx.Commit(e.ctx); err != nil {
		t.Fatal(err)
	}
	if err := e.queue.Add(tx, "k", 1); !errors.Is(err, percolator.ErrTxnDone) {
		t.Errorf("a finished transaction: %v", err)
	}
}

// Folds can wait until those who contribute are quiet: then one fold takes everything.
func TestFoldsAfterThoseWhoContribute(t *testing.T) {
	t.Parallel()
	const rows = 8
	cfg := config()
	cfg.Buckets = 1
	q, err := combinequeue.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	in := percolator.Int64("totals", "in")
	store := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{q.Table(), {Name: "totals", Observed: []string{in.Name}}}})
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	e := &env{t, store, ctx, store.Client, q, percolator.Int64("totals", "total")}
	r := observers.NewRegistry()
	var contributed, before atomic.Int64
	all := make(chan struct{}) // are queued
	observers.Observe(r, "count", in, func(_ context.Context, tx *percolator.Txn, _ observers.Change, n int64) error {
		<-all
		contributed.Add(n)
		return e.queue.Add(tx, "k", n)
	}, observers.MaxConcurrent(1))
	into := e.queue.Into(e.total)
	e.queue.ObserveBatch(r, func(ctx context.Context, tx *percolator.Txn, sums []combinequeue.Sum[int64]) error {
		before.CompareAndSwap(0, contributed.Load())
		return into(ctx, tx, sums)
	}, observers.After(time.Hour, "count"))
	w, _ := e.start(e.client, r)
	if _, err := e.client.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error {
		for i := range rows {
			if err := in.Set(tx, fmt.Sprint(i), 1); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	e.until("all rows are queued", func() bool { s := w.Stats(); return s.Queued+s.Running == rows })
	close(all)
	e.idle(w)
	if total, pending := e.read("k"); total != rows || pending != 0 {
		t.Errorf("folded %d, pending %d, want %d and 0", total, pending, rows)
	}
	if n := before.Load(); n != rows {
		t.Errorf("the first fold began after %d of %d contributions", n, rows)
	}
	if names := e.queue.Observers(); len(names) != 1 || w.Stats().Observers[names[0]].Runs == 0 {
		t.Errorf("%v did not fold", names)
	}
}
