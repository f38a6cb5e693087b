package bench

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

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
	Folds    Fig9Folds               `json:"folds"`
	Audit    tpce.Audit              `json:"audit"`
	Error    string                  `json:"error,omitempty"`
}

// Fig9Run is the process of one repetition: it does a job for each line that it reads and prints what it has done, until the
// input ends.
func Fig9Run(ctx context.Context, in io.Reader, out io.Writer) error {
	return answer(in, out, func(j fig9Job) *fig9Result {
		r, err := j.run(ctx)
		if err != nil {
			return &fig9Result{Error: err.Error()}
		}
		return r
	})
}

// run opens a firm, lets it work, and audits it.
func (j fig9Job) run(ctx context.Context) (_ *fig9Result, err error) {
	firm, err := tpce.New(tpce.SizeFor(j.Customers), j.Commission)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, j.warmUp()+j.Duration+patience+time.Duration(j.Customers)*10*time.Millisecond)
	defer cancel()
	g, err := startGround(ctx, j.Emulator, firm.Schema())
	if err != nil {
		return nil, err
	}
	defer func() { err = firstOf(err, g.close()) }()
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
	runtime.GC() // what loading has left behind is not the measurement's
	fold, stop, err := j.startFolding(ctx, client, firm)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstOf(err, stop()) }()

	r := &fig9Result{Emulator: g.emulator, Cores: runtime.GOMAXPROCS(0)}
	if err := j.trade(ctx, firm, exchange, func(ctx context.Context) error { return j.watch(ctx, r, t, client, fold) }); err != nil {
		return nil, err
	}
	if fold != nil {
		if err := fold.WaitIdle(ctx); err != nil {
			return nil, fmt.Errorf("folding the rest: %w", err)
		}
	}
	r.Audit, err = firm.Audit(ctx, exchange)
	return r, err
}

// warmUp is not counted.
func (j fig9Job) warmUp() time.Duration { return j.Duration / 4 }

// startFolding starts the worker that folds commissions; there is none where they are not queued.
func (j fig9Job) startFolding(
	ctx context.Context, c *percolator.Client, firm *tpce.Firm,
) (_ *observers.Worker, stop func() error, err error) {
	if j.Commission != tpce.Queued {
		return nil, func() error { return nil }, nil
	}
	registry := observers.NewRegistry()
	if err := firm.Observe(registry, j.FoldEvery); err != nil {
		return nil, nil, err
	}
	worker, err := observers.NewWorker(c, registry, observers.Config{DisableCollection: true}) // the store lives for seconds
	if err != nil {
		return nil, nil, err
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(running) }()
	return worker, func() error { cancel(); return <-ended }, nil
}

// trade lets the terminals and the exchange work while watch does, and then until every order has been executed and every price
// published.
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
	t.begin()
	if err := pause(ctx, j.Duration); err != nil {
		return err
	}
	t.end()
	r.Seconds, r.CPU = time.Since(begun).Seconds(), (cpuTime() - cpu).Seconds()
	r.Kinds, r.Executed = t.export()
	r.Requests = map[string]int64{}
	for kind, n := range c.Stats().Requests {
		r.Requests[kind] = n - requests[kind]
	}
	after := foldsOf(fold)
	r.Folds = Fig9Folds{Runs: after.Runs - folds.Runs, Conflicts: after.Conflicts - folds.Conflicts}
	return nil
}

func foldsOf(w *observers.Worker) Fig9Folds {
	if w == nil {
		return Fig9Folds{}
	}
	s := w.Stats()
	return Fig9Folds{Runs: s.Runs, Conflicts: s.Conflicts}
}
