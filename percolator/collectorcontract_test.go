package percolator_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A collector takes up a cycle in its resolve phase with knowledge of the schema from before a table was added. It must learn of the table
// first: passing over its locks and removing a primary's record would roll a committed value back.
func TestResumedCollectorLearnsOfTables(t *testing.T) {
	t.Parallel()
	env := newCollectorEnv(t)
	ctx := testContext(t)
	stale := env.NewClient(percolatortest.Configure(shortRetention))
	var blind atomic.Bool
	blind.Store(true)
	env.FaultsOf(stale).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Table == "percolator_meta" && r.Row == "meta" {
			if r.Method == percolatortest.CheckAndMutateRow {
				blind.Store(false)
			} else if blind.Load() {
				return percolatortest.LoseRequest
			}
		}
		return percolatortest.Pass
	})
	s := testSchema()
	s.Timing = env.Client.Schema().Timing
	s.Tables = append(s.Tables, percolator.Table{Name: "new"})
	must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, s, env.Options()...))
	writer := env.NewClient(percolatortest.Configure(shortRetention))
	env.FaultsOf(writer).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	secondary := percolator.Cell{Table: "new", Row: "b", Column: "c"}
	tx := mustBegin(t, ctx, writer)
	must(t, errors.Join(tx.Set(cell("a", "c"), []byte("v")), tx.Set(secondary, []byte("committed"))))
	mustCommit(t, ctx, tx)
	must(t, writer.Flush(ctx))
	fresh := env.NewClient(percolatortest.Configure(shortRetention))
	put(t, ctx, fresh, "a", "c", "w") // so that the primary's record is no longer needed for reads
	env.Clock.Advance(afterwards)

	stop, cancel := context.WithCancel(ctx)
	_, err := collector(t, fresh, admin.CollectorConfig{Progress: func(col admin.Collection) {
		if col.Phase == admin.CollectionResolve {
			cancel()
		}
	}}).Collect(stop)
	wantErr(t, err, context.Canceled)
	left, err := admin.New(fresh).Collection(ctx)
	must(t, err)
	if left.Phase != admin.CollectionResolve {
		t.Fatalf("left behind: %+v", left)
	}
	env.Clock.Advance(2 * time.Minute) // the lease, if it was not given up

	if _, err := collector(t, stale, admin.CollectorConfig{}).Collect(ctx); err == nil {
		t.Error("a collector went on that cannot learn of new tables")
	}
	env.Clock.Advance(2 * time.Minute)
	collect(t, ctx, fresh)
	wantNow(t, ctx, env.NewClient(percolatortest.Configure(shortRetention)), secondary, "committed")
}

// Run ends with its client.
func TestCollectorEndsWithItsClient(t *testing.T) {
	t.Parallel()
	env := newCollectorEnv(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := env.NewClient(percolatortest.Configure(shortRetention))
	g := collector(t, c, admin.CollectorConfig{Interval: time.Hour})
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	must(t, c.Close())
	if err := <-done; !errors.Is(err, percolator.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// The caller's cancellation is in the error, also while the collector waits for a live transaction.
func TestCollectKeepsTheContextError(t *testing.T) {
	t.Parallel()
	env := newCollectorEnv(t)
	ctx, c := testContext(t), env.Client
	long := env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.LockTTL = time.Hour }))
	tx := mustBegin(t, ctx, long)
	must(t, tx.Set(cell("r", "c"), []byte("v")))
	env.FaultsOf(long).Handle(func(r percolatortest.Request) percolatortest.Action {
		if isCommit(r) {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	tx.Commit(ctx)
	env.Clock.Advance(afterwards)
	stop, cancel := context.WithCancel(ctx)
	var reads atomic.Int64
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Table == "t" && r.Row == "r" && reads.Add(1) == 3 { // it looks at the primary again and again
			time.AfterFunc(time.Millisecond, cancel)
		}
		return percolatortest.Pass
	})
	_, err := collector(t, c, admin.CollectorConfig{}).Collect(stop)
	wantErr(t, err, context.Canceled)
}

// A deadline that comes while the collector keeps its pace is in the error.
func TestCollectorPaceKeepsTheDeadline(t *testing.T) {
	t.Parallel()
	env := newCollectorEnv(t)
	ctx, c := testContext(t), env.Client
	tx := mustBegin(t, ctx, c)
	for i := range 600 {
		must(t, tx.Set(cell(key(i), "c"), []byte("v")))
	}
	mustCommit(t, ctx, tx)
	must(t, c.Flush(ctx))
	env.Clock.Advance(afterwards)
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := collector(t, c, admin.CollectorConfig{RowsPerSecond: 1}).Collect(short)
	wantErr(t, err, context.DeadlineExceeded)
}

// A slow pace outlasts the lease, which is kept meanwhile.
func TestCollectorLeaseIsKeptWhileItWaits(t *testing.T) {
	t.Parallel()
	env := newCollectorEnv(t)
	ctx, c := testContext(t), env.Client
	tx := mustBegin(t, ctx, c)
	for i := range 516 {
		must(t, tx.Set(cell(key(i), "c"), []byte("v")))
	}
	mustCommit(t, ctx, tx)
	must(t, c.Flush(ctx))
	env.Clock.Advance(afterwards)
	erasing := make(chan struct{})
	var once sync.Once
	g := collector(t, c, admin.CollectorConfig{RowsPerSecond: 1, Lease: time.Second, Progress: func(col admin.Collection) {
		if col.Phase == admin.CollectionErase && col.Rows == 516 {
			once.Do(func() { close(erasing) })
		}
	}})
	done := make(chan error, 1)
	go func() { _, err := g.Collect(ctx); done <- err }()
	<-erasing // now it waits four seconds for its pace, with a lease of one
	for {
		_, err := collector(t, env.NewClient(percolatortest.Configure(shortRetention)), admin.CollectorConfig{}).Collect(ctx)
		if err == nil {
			break
		}
		if !errors.Is(err, percolator.ErrLocked) {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	must(t, <-done) // it came to its end with its lease
}
