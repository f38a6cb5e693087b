package bench

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/gopercolator/percolator/internal/webindex/index"
	"github.com/gopercolator/percolator/internal/webindex/load"
	"github.com/gopercolator/percolator/internal/webindex/verify"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// merged gives reads of columns that are named after pages one name: there are as many of them as pages.
func merged(o readOrigin) string {
	switch {
	case o.table == index.Links, o.table == index.Postings:
		if o.columns != "" {
			return "(a page's)"
		}
	case o.table == index.Passing.Table().Name:
		if o.columns != "" {
			return "(an entry's)"
		}
	}
	return strings.ReplaceAll(o.columns, "\x00", "·") // acknowledgments
}

// opsSite is a web index with a worker, all of it in this process.
type opsSite struct {
	*ground
	client *percolator.Client
	worker *observers.Worker
	count  *opsCounter
	before observers.Stats
	stats  percolator.Stats
}

// opsOracle takes its time like the store, and offers everything that the oracle of a ground does.
type opsOracle struct {
	*tso.Server
	delay time.Duration
}

// Next implements tso.Oracle.
func (o opsOracle) Next(ctx context.Context) (tso.Timestamp, error) {
	if err := letPass(ctx, o.delay); err != nil {
		return 0, err
	}
	return o.Server.Next(ctx)
}

// measure loads the pages twice, waits for the observers each time, and verifies the index.
func (v *OpsVariant) measure(ctx context.Context, cfg OpsConfig, pages *opsCrawl, step func()) (emulator string, err error) {
	g, err := startGround(ctx, cfg.Emulator, index.Schema())
	if err != nil {
		return "", err
	}
	defer func() { err = firstOf(err, g.close()) }()
	s := &opsSite{ground: g, count: newOpsCounter()}
	if s.client, err = g.client(ctx, percolator.Config{
		DisableBatching: !v.Batching, DisablePrefetch: !v.Prefetch, Oracle: opsOracle{g.oracle.(*tso.Server), cfg.Delay},
	}, wire{cfg.Delay, s.count.see}.option()...); err != nil {
		return "", err
	}
	// An emulator that lives for a minute has nothing to collect.
	s.worker, err = observers.NewWorker(s.client, index.Registry(cfg.Collapse),
		observers.Config{DisableCollection: true, Concurrency: cfg.Concurrency})
	if err != nil {
		return "", err
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.worker.Run(working) }()
	defer func() { stop(); err = firstOf(err, <-ended) }()

	s.begin()
	for _, phase := range []struct {
		out   *OpsPhase
		path  string
		wrote int
	}{{&v.Load, pages.first, pages.pages}, {&v.Rerun, pages.later, pages.changed}} {
		if *phase.out, err = s.load(ctx, phase.path); err != nil {
			return "", err
		}
		if phase.out.Pages != phase.wrote {
			return "", fmt.Errorf("%d pages were written, not %d", phase.out.Pages, phase.wrote)
		}
		step()
	}
	if v.Differences, err = s.verify(ctx); err == nil && v.Differences > 0 {
		err = fmt.Errorf("the index has %d differences to its pages", v.Differences)
	}
	return g.emulator, err
}

// load loads a crawl, and counts until no observer has anything left to do.
func (s *opsSite) load(ctx context.Context, path string) (p OpsPhase, err error) {
	begun := time.Now()
	l := &load.Loader{Client: s.client, Log: slog.New(slog.DiscardHandler)}
	if err := l.Load(ctx, load.Path(path)); err != nil {
		return p, err
	}
	if err := s.worker.WaitIdle(ctx); err != nil {
		return p, err
	}
	p = s.taken()
	p.Pages, p.Seconds = int(l.Counts().Changed), time.Since(begun).Seconds()
	for parked, err := range observers.ListParked(ctx, s.client) {
		if err != nil {
			return p, err
		}
		return p, fmt.Errorf("observer %s has given up on %s: %s", parked.Observer, parked.Cell, parked.Reason)
	}
	return p, nil
}

// begin leaves out what happened so far: connecting.
func (s *opsSite) begin() { s.taken() }

// taken is what happened since it was last called.
func (s *opsSite) taken() (p OpsPhase) {
	p.Requests, p.Reads, p.Origins = s.count.take()
	worker, client := s.worker.Stats(), s.client.Stats()
	p.Runs = map[string]int64{}
	for name, o := range worker.Observers {
		p.Runs[index.ObserverName(name)] += o.Runs - s.before.Observers[name].Runs
	}
	p.Attempts = worker.Attempts - s.before.Attempts
	p.Oracle = int(client.Requests["Oracle"] - s.stats.Requests["Oracle"])
	p.RowsRead = int(client.RowsRead - s.stats.RowsRead)
	s.before, s.stats = worker, client
	return p
}

// verify compares the index with its pages.
func (s *opsSite) verify(ctx context.Context) (differences int, err error) {
	err = s.client.View(ctx, func(ctx context.Context, snap *percolator.Snapshot) error {
		differences, err = verify.Run(ctx, snap, func(verify.Difference) {})
		return err
	})
	return differences, err
}
