package gc_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// stoppingOracle is the oracle of a process that is stopped once, while it asks for the time.
type stoppingOracle struct {
	tso.Oracle
	stop    atomic.Bool
	stopped chan struct{}
	goOn    chan struct{}
}

func (o *stoppingOracle) configure(cfg *percolator.Config) { o.Oracle, cfg.Oracle = cfg.Oracle, o }

func (o *stoppingOracle) Next(ctx context.Context) (tso.Timestamp, error) {
	if o.stop.CompareAndSwap(true, false) {
		close(o.stopped)
		<-o.goOn
		return o.Oracle.Next(context.WithoutCancel(ctx))
	}
	return o.Oracle.Next(ctx)
}

// A reader has seen the lock of a deletion and is stopped, while it is about to judge it. Meanwhile
// the deletion commits, before the reader's snapshot, and is collected with everything beneath it.
// When the reader goes on it finds nothing on the primary, and what it saw beneath the lock is
// visible no more (I16).
func TestReaderStoppedWithALockInItsHand(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testReaderStoppedWithALockInItsHand)
}

func testReaderStoppedWithALockInItsHand(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	env.Clock.Stop()
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "old")
	oracle := &stoppingOracle{stopped: make(chan struct{}), goOn: make(chan struct{})}
	reader := env.NewClient(fixture.ShortRetention, percolatortest.Configure(oracle.configure))
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, tx.Delete(fixture.Cell("r", "c")))
	hold := percolatortest.NewHold()
	env.FaultsOf(c).Handle(fixture.AtMost(1, fixture.IsCommit, hold))
	committed := make(chan error, 1)
	go func() { committed <- fixture.ErrOf(tx.Commit(ctx)) }()
	hold.Wait(t, 1) // it has its commit timestamp
	env.Clock.Advance(30 * time.Second)
	s, err := reader.Snapshot(ctx)
	fixture.Must(t, err)
	oracle.stop.Store(true)
	got := make(chan string, 1)
	go func() {
		v, err := s.GetMulti(ctx, fixture.Cell("r", "c"))
		if err != nil {
			got <- "" // refused: right as well
			return
		}
		got <- string(v[0])
	}()
	<-oracle.stopped
	hold.Release()
	fixture.Must(t, <-committed)
	env.Clock.Advance(45 * time.Second)
	fixture.Collect(t, ctx, c)
	close(oracle.goOn)
	if v := <-got; v != "" {
		t.Errorf("a cell that was deleted before the snapshot reads %q", v)
	}
}
