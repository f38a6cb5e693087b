package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/tpce"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// fig9Job is one repetition.
type fig9Job struct {
	Emulator   string          `json:"emulator"`
	Customers  int             `json:"customers"`
	Commission tpce.Commission `json:"commission"`
	Terminals  int             `json:"terminals"`
	FoldEvery  time.Duration   `json:"fold_every"`
	Duration   time.Duration   `json:"duration"`
	Seed       uint64          `json:"seed"`
}

// fig9Result is what was counted while it was measured, and the audit of everything.
type fig9Result struct {
	Emulator string                  `json:"emulator"`
	Cores    int                     `json:"cores"`
	Seconds  float64                 `json:"seconds"`
	CPU      float64                 `json:"cpu_s"`
	Executed int64                   `json:"executed"`
	Kinds    map[tpce.Kind]*fig9Kind `json:"kinds"`
	Requests map[string]int64        `json:"requests"`
	Folds    fig9Folds               `json:"folds"`
	Audit    fig9Audit               `json:"audit"`
	Error    string                  `json:"error,omitempty"`
}

// fig9Run is the process of one repetition.
func fig9Run(ctx context.Context, j fig9Job, l *lines) error {
	r, err := j.run(ctx)
	if err != nil {
		r = &fig9Result{Error: err.Error()}
	}
	return l.say(r)
}

// run opens a firm, lets it work, and audits it.
func (j fig9Job) run(ctx context.Context) (_ *fig9Result, err error) {
	firm, err := tpce.New(tpce.SizeFor(j.Customers), j.Commission)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, j.warmUp()+j.Duration+gracePeriod+time.Duration(j.Customers)*10*time.Millisecond)
	defer cancel()
	g, err := startEnvironment(ctx, j.Emulator, firm.Schema())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	client, err := g.client(ctx, percolator.Config{})
	if err != nil {
		return nil, err
	}
	t := newFig9Tally()
	firm.Open(client, t.done)
	exchange := tpce.NewExchange(firm.Size().Securities, j.Seed)
	if err := firm.Load(ctx, exchange); err != nil {
		return nil, err
	}
	if err := client.Flush(ctx); err != nil {
		return nil, err
	}
	runtime.GC()               // what loading has left behind is not the measurement's
	var fold *observers.Worker // folds commissions; there is none where they are not queued
	if j.Commission == tpce.Queued {
		registry := observers.NewRegistry()
		if err := firm.Observe(registry, j.FoldEvery); err != nil {
			return nil, err
		}
		if fold, _, err = g.work(ctx, client, registry, observers.Config{}); err != nil {
			return nil, err
		}
	}
	r := &fig9Result{Emulator: g.emulator, Cores: runtime.GOMAXPROCS(0)}
	if err := j.trade(ctx, firm, exchange, func(ctx context.Context) error { return j.watch(ctx, r, t, client, fold) }); err != nil {
		return nil, err
	}
	if fold != nil {
		if err := fold.WaitIdle(ctx); err != nil {
			return nil, fmt.Errorf("folding the rest: %w", err)
		}
	}
	r.Audit.Audit, err = firm.Audit(ctx, exchange)
	return r, err
}

// warmUp is not counted.
func (j fig9Job) warmUp() time.Duration { return j.Duration / 4 }

// trade lets the terminals and the exchange work while watch does, and then until every order has
// been executed and every price published.
func (j fig9Job) trade(
	ctx context.Context, firm *tpce.Firm, exchange *tpce.Exchange, watch func(context.Context) error,
) error {
	group, working := errgroup.WithContext(ctx)
	tickets := make(chan tpce.Ticket, j.Terminals) // an exchange that is behind holds up the terminals
	closing := make(chan struct{})
	group.Go(func() error {
		defer close(closing)
		return watch(working)
	})
	group.Go(func() error {
		defer close(tickets)
		terminals, selling := errgroup.WithContext(working)
		for i := range j.Terminals {
			random := rand.New(rand.NewPCG(j.Seed, uint64(i)))
			terminals.Go(func() error { return firm.Terminal(selling, random, tickets, closing) })
		}
		return terminals.Wait()
	})
	for range j.Terminals {
		group.Go(func() error { return firm.Execute(working, exchange, tickets) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return firm.MarketFeed(ctx, exchange.Publish())
}

// watch waits until everything is warm and counts for as long as the measurement takes.
func (j fig9Job) watch(ctx context.Context, r *fig9Result, t *fig9Tally, c *percolator.Client, fold *observers.Worker) error {
	if err := pause(ctx, j.warmUp()); err != nil {
		return err
	}
	begun, cpu, requests, folds := time.Now(), cpuTime(), c.Stats().Requests, foldsOf(fold)
	t.count(true)
	if err := pause(ctx, j.Duration); err != nil {
		return err
	}
	t.count(false)
	r.Seconds, r.CPU = time.Since(begun).Seconds(), (cpuTime() - cpu).Seconds()
	r.Kinds, r.Executed = t.kinds, t.executed // nobody counts any more
	r.Requests = minus(c.Stats().Requests, requests)
	after := foldsOf(fold)
	r.Folds = fig9Folds{Runs: after.Runs - folds.Runs, Conflicts: after.Conflicts - folds.Conflicts}
	return nil
}

func foldsOf(w *observers.Worker) fig9Folds {
	if w == nil {
		return fig9Folds{}
	}
	s := w.Stats()
	return fig9Folds{Runs: s.Runs, Conflicts: s.Conflicts}
}

// fig9Folds is what the observers of the combine queue did.
type fig9Folds struct {
	Runs      int64 `json:"runs"`
	Conflicts int64 `json:"conflicts"`
}

// fig9Audit is everything that was done, counted or not.
type fig9Audit struct{ tpce.Audit }

func (a fig9Audit) into(row *report.Row) {
	row.Add("trades", a.Trades, "settled", a.Settled, "rejected", a.Rejected, "accounts", a.Accounts,
		"commission, cents", a.Commission, "earned, cents", a.Earned)
}

// fig9Kind is one type of transaction. Its latency is that of the closed loop, with all attempts.
type fig9Kind struct {
	Conflicts int64    `json:"conflicts"`
	Latencies recorder `json:"latencies"`
}

// fig9Tally counts the transactions that end between begin and end.
type fig9Tally struct {
	mu       sync.Mutex
	counting bool
	executed int64
	kinds    map[tpce.Kind]*fig9Kind
}

func newFig9Tally() *fig9Tally {
	t := &fig9Tally{kinds: map[tpce.Kind]*fig9Kind{}}
	for _, k := range tpce.Kinds {
		t.kinds[k] = new(fig9Kind)
	}
	return t
}

func (t *fig9Tally) count(counting bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counting = counting
}

func (t *fig9Tally) done(d tpce.Done) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.counting {
		return
	}
	if d.Executed {
		t.executed++
	}
	t.kinds[d.Kind].Conflicts += int64(d.Attempts - 1)
	t.kinds[d.Kind].Latencies.record(d.Took)
}
