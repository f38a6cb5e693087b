package emulator_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

var crashRounds = flag.Int("crashes.rounds", 24, "how many instances TestSeveralCrashes plays with")

// TestSeveralCrashes has writers, workers and collectors of one instance die, each at some request
// of its own, to the journal or another table, while the others are at work or dead as well; those
// who come after them die too. In the end one worker and one collector deal with all of it: rows
// agree, every notification led to a run, and nothing is left that collection should have found.
func TestSeveralCrashes(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	slots := make(chan struct{}, 2)
	var all sync.WaitGroup
	var died atomic.Int64
	for range *crashRounds {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			seed := rand.Uint64()
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				percolatortest.Bubble(t, func(t *testing.T) { died.Add(int64(severalCrashes(t, seed))) })
			})
		})
	}
	all.Wait()
	t.Logf("%d died in %d rounds", died.Load(), *crashRounds)
	if died.Load() < int64(3**crashRounds) {
		t.Error("too few died")
	}
}

// mortals is an instance whose clients die.
type mortals struct {
	*testing.T
	env      *percolatortest.Env
	ctx      context.Context
	sessions fixture.Registrar
	random   *rand.Rand
	clients  []*percolator.Client
	died     int
}

const (
	mortalRetention = time.Minute
	roundLimit      = 5 * time.Minute // ten times what a round takes, drains included
)

// severalCrashes plays one round and returns how many died.
func severalCrashes(t *testing.T, seed uint64) int {
	ctx, cancel := context.WithTimeout(t.Context(), roundLimit)
	defer cancel()
	m := &mortals{T: t, ctx: ctx, random: rand.New(rand.NewPCG(seed, 0))}
	m.env = percolatortest.New(t, &percolator.Schema{
		Tables: []percolator.Table{{Name: "t", Observed: []string{"in"}, Weak: []string{"poke"}}},
		Timing: percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: 2 * time.Second}, // many clients re-read the meta row in it
	}, percolatortest.Configure(func(cfg *percolator.Config) { cfg.Retention = mortalRetention }))
	m.together(
		func() { m.write(m.client(60), "x") },
		func() { m.write(m.client(60), "y") },
		func() { m.work(m.client(90)) },
		func() { m.collect(m.client(60)) })
	m.together(
		func() { m.write(m.client(60), "z") },
		func() { m.work(m.client(60)) },
		func() { m.collect(m.client(40)) })
	m.together(func() { m.work(m.client(40)) }, func() { m.collect(m.client(30)) })
	last := m.client(0)
	m.write(last, "last")
	m.work(last)
	m.bury()
	m.collect(last)
	m.judge(last)
	return m.died
}

// together lets all of them come to their ends, and then buries the dead.
func (m *mortals) together(fs ...func()) {
	var all sync.WaitGroup
	for _, f := range fs {
		all.Go(f)
	}
	all.Wait()
	m.bury()
}

var mortalMu sync.Mutex // of the clients and random numbers of every round

// client is a client that dies at one of its next n requests; 0: it does not.
func (m *mortals) client(n int) *percolator.Client {
	mortalMu.Lock()
	defer mortalMu.Unlock()
	c := m.env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) {
		cfg.Oracle, cfg.Retention = m.sessions.Oracle(cfg.Oracle), mortalRetention
	}))
	m.clients = append(m.clients, c)
	if n == 0 {
		return c
	}
	at, sent := int64(1+m.random.IntN(n)), new(atomic.Int64)
	die := func(percolatortest.Request) percolatortest.Action {
		if sent.Add(1) == at {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	}
	m.env.FaultsOf(c).Handle(die)
	m.env.FaultsOf(c).HandleJournal(die)
	return c
}

// bury ends the sessions of the dead, and the leases that they held.
func (m *mortals) bury() {
	for _, c := range m.clients {
		if m.env.FaultsOf(c).Crashed() {
			m.sessions.End(c.Engine().Locks.Sessions.Own())
			m.died++
		}
	}
	m.clients = nil
	m.env.Clock.Advance(mortalRetention + 5*time.Second)
}

var mortalRows = []string{"a", "b", "c"}

// write has transactions write one value to all rows, observed, and notify of one weakly.
func (m *mortals) write(c *percolator.Client, name string) {
	for i := range 6 {
		ctx, cancel := context.WithTimeout(m.ctx, 10*time.Second)
		_, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
			for _, row := range mortalRows {
				if err := tx.Set(fixture.Cell(row, "in"), fmt.Append(nil, name, i)); err != nil {
					return err
				}
			}
			return tx.Notify(fixture.Cell("a", "poke"))
		})
		cancel()
		if err != nil && !m.env.FaultsOf(c).Crashed() {
			m.Logf("%s%d: %v", name, i, err)
		}
	}
}

// work runs observers until they are idle, or their client has died.
func (m *mortals) work(c *percolator.Client) {
	r := observers.NewRegistry()
	copies := func(to string) observers.Func {
		return func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
			v, err := tx.Get(ctx, fixture.Cell(ch.Cell.Row, "in"))
			if err != nil || v == nil {
				return err
			}
			return tx.Set(fixture.Cell(ch.Cell.Row, to), v)
		}
	}
	r.Observe("copy", "t", "in", copies("out"))
	r.Observe("poke", "t", "poke", copies("poked"))
	w, err := observers.NewWorker(c, r, observers.Config{DisableCollection: true, DrainTimeout: time.Millisecond})
	fixture.Must(m, err)
	ctx, stop := context.WithCancel(m.ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	idle := make(chan error, 1)
	go func() { idle <- w.WaitIdle(ctx) }()
	fixture.Within(m, roundLimit, "a worker is idle or dead", func() bool { return len(idle) > 0 || m.env.FaultsOf(c).Crashed() })
	stop()
	<-ended
	if err := <-idle; err != nil && !m.env.FaultsOf(c).Crashed() {
		m.Errorf("waiting for a worker: %v", err)
	}
}

func (m *mortals) collect(c *percolator.Client) {
	g, err := admin.New(c).NewCollector(admin.CollectorConfig{Lease: mortalRetention})
	fixture.Must(m, err)
	if col, err := g.Collect(m.ctx); err != nil && !m.env.FaultsOf(c).Crashed() {
		m.Logf("collected %+v: %v", col, err)
	}
}

// judge compares what is in the rows, and audits all cells.
func (m *mortals) judge(c *percolator.Client) {
	for _, row := range mortalRows {
		for _, column := range []string{"in", "out"} {
			fixture.WantNow(m, m.ctx, c, fixture.Cell(row, column), "last5")
		}
	}
	fixture.WantNow(m, m.ctx, c, fixture.Cell("a", "poked"), "last5")
	m.env.Audit(m, fixture.Collected)
}
