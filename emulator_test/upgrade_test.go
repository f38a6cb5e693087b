package emulator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// upgrade is an instance that gets a journal, and loses it, under the load of the workload.
type upgrade struct {
	*testing.T
	env     *percolatortest.Env
	ctx     context.Context
	work    *workload.Workload
	loading context.Context
	seed    uint64
	running sync.WaitGroup
	dying   []*percolatortest.Faults
	clients int
}

func upgradeSchema(journaled bool) *percolator.Schema {
	s := workload.Schema(percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: 2 * time.Second})
	s.DisableJournal = !journaled
	return s
}

func (u *upgrade) configure() percolatortest.ClientOption {
	return percolatortest.Configure(func(cfg *percolator.Config) {
		cfg.LockTTL, cfg.Retention = 2*time.Second, time.Minute
	})
}

// client makes transactions until the load ends, or until it dies at its nth request; 0: it lives.
func (u *upgrade) client(dies int64) {
	u.Helper()
	u.clients++
	name := fmt.Sprintf("client-%d", u.clients)
	var requests atomic.Int64
	c := u.env.NewClient(u.configure(), percolatortest.Name(name), percolatortest.Handler(func(percolatortest.Request) percolatortest.Action {
		if n := requests.Add(1); dies > 0 && n >= dies {
			return percolatortest.Crash
		}
		return takingTime(fixture.Of(5*time.Millisecond, 20*time.Millisecond))
	}))
	f := u.env.FaultsOf(c)
	if dies > 0 {
		u.dying = append(u.dying, f)
	}
	s := u.work.NewSession(c, name, f.Crashed, rand.New(rand.NewPCG(u.seed, uint64(u.clients))))
	u.running.Go(func() {
		for u.loading.Err() == nil && !f.Crashed() {
			s.Step(u.ctx)
			f.Forget()
		}
	})
}

// more waits for so many transactions, in which clients die.
func (u *upgrade) more(what string) {
	u.Helper()
	for range 2 {
		u.client(50 + rand.New(rand.NewPCG(u.seed, uint64(u.clients))).Int64N(fixture.Of[int64](200, 50)))
	}
	started := u.work.History.Len()
	fixture.Within(u, 3*time.Minute, what, func() bool {
		return u.work.History.Len() >= started+fixture.Of(150, 40) && !slices.ContainsFunc(u.dying, func(f *percolatortest.Faults) bool { return !f.Crashed() })
	})
	u.env.Clock.Advance(3 * time.Second) // locks of the dead are dead
}

func (u *upgrade) apply(journaled bool) {
	u.Helper()
	fixture.Must(u, percolator.CreateSchema(u.ctx, u.env.Project, u.env.Instance, upgradeSchema(journaled), u.env.Options()...))
}

func (u *upgrade) sweep() (done model.Sweep) {
	u.Helper()
	s, err := admin.New(u.env.Client).NewSweeper(model.SweepConfig{})
	fixture.Must(u, err)
	done, err = s.Sweep(u.ctx)
	fixture.Must(u, err)
	return done
}

func (u *upgrade) collect() {
	u.Helper()
	u.env.Clock.Advance(2 * time.Minute)
	c, err := admin.New(u.env.Client).NewCollector(admin.CollectorConfig{})
	fixture.Must(u, err)
	if col, err := c.Collect(u.ctx); err != nil || col.Versions == 0 {
		u.Errorf("collected %d versions: %v", col.Versions, err)
	}
}

// worker runs the observers until stop is called.
func (u *upgrade) worker(c *percolator.Client) (w *observers.Worker, stop func()) {
	u.Helper()
	w, err := observers.NewWorker(c, u.work.Observers("worker", c), observers.Config{DisableCollection: true, SweepInterval: -1, MaxBackoff: 200 * time.Millisecond})
	fixture.Must(u, err)
	ctx, cancel := context.WithCancel(u.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return w, sync.OnceFunc(func() { cancel(); fixture.Must(u, <-done) })
}

// TestUpgradeHistory: a populated instance gets a journal, loses it and gets it again, while
// clients make all kinds of transactions and some of them die, observers run, and what is old is
// collected. What everybody saw is snapshot isolation, and no observer has missed a change.
func TestUpgradeHistory(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	percolatortest.Bubble(t, testUpgradeHistory)
}

func testUpgradeHistory(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	loading, stopLoad := context.WithCancel(ctx)
	defer stopLoad()
	u := &upgrade{T: t, ctx: ctx, loading: loading, work: workload.New(history.New()), seed: rand.Uint64()}
	t.Logf("seed %d", u.seed)
	u.env = percolatortest.New(t, upgradeSchema(false), u.configure())
	fixture.Must(t, u.work.Setup(ctx, u.env.Client))
	w, stopWorker := u.worker(u.env.NewClient(u.configure()))
	for range 3 {
		u.client(0)
	}

	u.more("transactions without a journal")
	for round := range 2 {
		u.apply(true)
		u.more("transactions while it is building")
		if done := u.sweep(); done.Building == "" || !u.env.Client.Engine().Meta.ByJournal() {
			t.Errorf("the journal is not ready: %+v", done)
		}
		u.more("transactions with a journal")
		u.collect()
		if round == 0 {
			u.apply(false)
			u.more("transactions without it again")
		}
	}
	stopLoad()
	u.running.Wait()
	u.env.Clock.Advance(3 * time.Second)
	fixture.Must(t, w.WaitIdle(ctx))
	stopWorker()
	fixture.Must(t, u.work.Final(ctx, u.env.Client, true))
	u.judge()
}

// judge checks the history against itself and against the raw tables.
func (u *upgrade) judge() {
	u.Helper()
	var seen []model.AuditedRecord
	report, err := percolatortest.Audit(u.ctx, u.env.Store(), model.AuditConfig{
		Schema: u.env.Client.Schema(), Observers: workload.Observed(),
		Visit: func(r model.AuditedRecord) { seen = append(seen, r) },
	})
	fixture.Must(u, err)
	if report.Found > 0 {
		u.Error(report)
	}
	for _, r := range seen {
		if marker := r.Kind == 'R'; !marker || r.Start > report.GCWatermark {
			u.work.History.Found(history.Record{Cell: history.Cell(r.Cell), Start: r.Start, Commit: r.Commit, Marker: marker})
		}
	}
	checked := history.Check(u.work.History, workload.Rules())
	if checked.Found() > 0 {
		u.Error(checked)
	}
	u.Logf("%d transactions, %d committed, %d clients of which %d died", checked.Transactions, checked.Committed, u.clients, len(u.dying))
}
