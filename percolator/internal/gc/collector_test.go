package gc_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A collector takes up a cycle in its resolve phase with knowledge of the schema from before a
// table was added. It must learn of the table first: passing over its locks and removing a
// primary's record would roll a committed value back.
func TestResumedCollectorLearnsOfTables(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testResumedCollectorLearnsOfTables)
}

func testResumedCollectorLearnsOfTables(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	stale := env.NewClient(fixture.ShortRetention)
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
	s := fixture.Schema()
	s.Timing = env.Client.Schema().Timing
	s.Tables = append(s.Tables, percolator.Table{Name: "new"})
	fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, s, env.Options()...))
	secondary := percolator.Cell{Table: "new", Row: "b", Column: "c"}
	fixture.Strand(t, ctx, env, fixture.Cell("a", "c"), secondary)
	fresh := env.NewClient(fixture.ShortRetention)
	fixture.Put(t, ctx, fresh, "a", "c", "w") // so that the primary's record is no longer needed for reads
	env.Clock.Advance(fixture.PastRetention)

	stop, cancel := context.WithCancel(ctx)
	_, err := fixture.NewCollector(t, fresh, model.CollectorConfig{Progress: func(col model.Collection) {
		if col.Phase == model.CollectionResolve {
			cancel()
		}
	}}).Collect(stop)
	fixture.WantErr(t, err, context.Canceled)
	left, err := admin.New(fresh).Collection(ctx)
	fixture.Must(t, err)
	if left.Phase != model.CollectionResolve {
		t.Fatalf("left behind: %+v", left)
	}
	env.Clock.Advance(2 * time.Minute) // the lease, if it was not given up

	if _, err := fixture.NewCollector(t, stale, model.CollectorConfig{}).Collect(ctx); err == nil {
		t.Error("a collector went on that cannot learn of new tables")
	}
	env.Clock.Advance(2 * time.Minute)
	fixture.Collect(t, ctx, fresh)
	fixture.WantNow(t, ctx, env.NewClient(fixture.ShortRetention), secondary, "stranded")
}

// Run ends with its client.
func TestCollectorEndsWithItsClient(t *testing.T) {
	t.Parallel()
	env := fixture.NewCollectorEnv(t)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	c := env.NewClient(fixture.ShortRetention)
	g := fixture.NewCollector(t, c, model.CollectorConfig{Interval: time.Hour})
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	fixture.Must(t, c.Close())
	if err := <-done; !errors.Is(err, percolator.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// The caller's cancellation is in the error, also while the collector waits for a live transaction.
func TestCollectKeepsTheContextError(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCollectKeepsTheContextError)
}

func testCollectKeepsTheContextError(t *testing.T) {
	env := fixture.NewCollectorEnv(t, fixture.ByPasses) // which wait for the living
	ctx, c := fixture.Context(t), env.Client
	long := env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.LockTTL = time.Hour }))
	tx := fixture.MustBegin(t, ctx, long)
	fixture.Must(t, tx.Set(fixture.Cell("r", "c"), []byte("v")))
	env.FaultsOf(long).Handle(fixture.AtMost(1, fixture.IsCommit, percolatortest.Crash))
	tx.Commit(ctx)
	env.Clock.Advance(fixture.PastRetention)
	stop, cancel := context.WithCancel(ctx)
	var reads atomic.Int64
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Table == "t" && r.Row == "r" && reads.Add(1) == 3 { // it looks at the primary again and again
			cancel()
		}
		return percolatortest.Pass
	})
	_, err := fixture.NewCollector(t, c, model.CollectorConfig{}).Collect(stop)
	fixture.WantErr(t, err, context.Canceled)
}

// A deadline that comes while the collector keeps its pace is in the error.
func TestCollectorPaceKeepsTheDeadline(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCollectorPaceKeepsTheDeadline)
}

func testCollectorPaceKeepsTheDeadline(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	tx := fixture.MustBegin(t, ctx, c)
	for i := range 600 {
		fixture.Must(t, tx.Set(fixture.Cell(fixture.Key(i), "c"), []byte("v")))
	}
	fixture.MustCommit(t, ctx, tx)
	fixture.Must(t, c.Flush(ctx))
	env.Clock.Advance(fixture.PastRetention)
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := fixture.NewCollector(t, c, model.CollectorConfig{RowsPerSecond: 1}).Collect(short)
	fixture.WantErr(t, err, context.DeadlineExceeded)
}

// A slow pace outlasts the lease, which is kept meanwhile.
func TestCollectorLeaseIsKeptWhileItWaits(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testCollectorLeaseIsKeptWhileItWaits)
}

func testCollectorLeaseIsKeptWhileItWaits(t *testing.T) {
	env := fixture.NewCollectorEnv(t, fixture.ByPasses)
	ctx, c := fixture.Context(t), env.Client
	tx := fixture.MustBegin(t, ctx, c)
	for i := range 516 {
		fixture.Must(t, tx.Set(fixture.Cell(fixture.Key(i), "c"), []byte("v")))
	}
	fixture.MustCommit(t, ctx, tx)
	fixture.Must(t, c.Flush(ctx))
	env.Clock.Advance(fixture.PastRetention)
	erasing := make(chan struct{})
	var once sync.Once
	g := fixture.NewCollector(t, c, model.CollectorConfig{RowsPerSecond: 1, Lease: time.Second, Progress: func(col model.Collection) {
		if col.Phase == model.CollectionErase && col.Rows == 516 {
			once.Do(func() { close(erasing) })
		}
	}})
	done := make(chan error, 1)
	go func() { _, err := g.Collect(ctx); done <- err }()
	<-erasing // now it waits four seconds for its pace, with a lease of one
	other := fixture.NewCollector(t, env.NewClient(fixture.ShortRetention), model.CollectorConfig{})
	for {
		_, err := other.Collect(ctx)
		if err == nil {
			break
		}
		slow := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil // a request has two seconds
		if !errors.Is(err, admin.ErrLeased) && !slow {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	fixture.Must(t, <-done) // it came to its end with its lease
}

// Between the announcement of a safepoint and the first lock that is resolved, what was sent by
// those who did not know of it ends (I16).
func TestCollectionDrains(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCollectionDrains)
}

func testCollectionDrains(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "v")
	env.Clock.Advance(fixture.PastRetention)
	timing := c.Schema().Timing
	var announced, drained time.Time
	g := fixture.NewCollector(t, c, model.CollectorConfig{Progress: func(col model.Collection) {
		switch {
		case col.Phase == model.CollectionDrain && announced.IsZero():
			announced = time.Now()
		case col.Phase == model.CollectionResolve && drained.IsZero():
			drained = time.Now()
		}
	}})
	_, err := g.Collect(ctx)
	fixture.Must(t, err)
	if waited := drained.Sub(announced); announced.IsZero() || waited < timing.RequestLifetime+timing.MetaMaxAge {
		t.Errorf("resolved locks %v after the announcement; requests last %v, and knowledge %v", waited, timing.RequestLifetime, timing.MetaMaxAge)
	}
}
