package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// result is what a version cost, and what it came to.
type result struct {
	version            string
	changes            int                 // of documents
	commits, conflicts int64               // of all observers on all workers
	rewritten          int64               // lists that observers wrote, in all attempts
	clusters           map[string][]string // in the end
}

// rate is the number of runs that lost against another transaction for each that committed.
func (r *result) rate() float64 { return float64(r.conflicts) / float64(max(1, r.commits)) }

// Every document is in the hot cluster first; then every third moves to another cluster, which is
// as hot.
const hot, other = "hot", "other"

// run starts a store and workers, has documents change, and waits until all observers have run.
func run(ctx context.Context, v version, documents, workers int) (_ *result, err error) {
	s, err := start(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	r := &result{version: v.name}
	var rewritten atomic.Int64
	var all []*observers.Worker
	running, stop := context.WithCancel(ctx)
	defer stop()
	var working errgroup.Group
	for range workers { // each with a client of its own, as if it were on another machine
		c, err := s.client(ctx)
		if err != nil {
			return nil, err
		}
		registry := observers.NewRegistry()
		v.register(registry, &rewritten)
		w, err := observers.NewWorker(c, registry, observers.Config{Concurrency: 16, DisableCollection: true})
		if err != nil {
			return nil, err
		}
		all = append(all, w)
		working.Go(func() error { return w.Run(running) })
	}

	writer, err := s.client(ctx)
	if err != nil {
		return nil, err
	}
	for round, key := range []string{hot, other} {
		n, err := write(ctx, writer, documents, 1+2*round, key) // all of them, then every third
		if err != nil {
			return nil, err
		}
		r.changes += n
		if err := all[0].WaitIdle(ctx); err != nil {
			return nil, err
		}
	}
	stop()
	if err := working.Wait(); err != nil {
		return nil, err
	}
	for _, w := range all {
		st := w.Stats()
		r.commits += st.Runs
		r.conflicts += st.Conflicts
	}
	r.rewritten = rewritten.Load()
	r.clusters, err = lists(ctx, writer)
	return r, err
}

// write sets the content of every n-th document, many at once.
func write(ctx context.Context, c *percolator.Client, documents, nth int, key string) (changes int, err error) {
	var writers errgroup.Group
	writers.SetLimit(16)
	for i := 0; i < documents; i += nth {
		changes++
		writers.Go(func() error {
			_, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
				return content.Set(tx, fmt.Sprintf("document-%05d", i), key)
			})
			return err
		})
	}
	return changes, writers.Wait()
}

// lists reads the lists of all clusters.
func lists(ctx context.Context, c *percolator.Client) (map[string][]string, error) {
	clusters := map[string][]string{}
	err := c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		for e, err := range members.Scan(ctx, s, percolator.All()) {
			if err != nil {
				return err
			}
			clusters[e.Cell.Row] = e.Value
		}
		return nil
	})
	return clusters, err
}

// store is an emulator and an oracle in this process. A real program has both elsewhere, and only
// makes a client.
type store struct {
	emulator *emulator.Server
	oracle   *tso.Server
	cancel   context.CancelFunc
	ended    chan error
	clients  []*percolator.Client
}

func start(ctx context.Context) (*store, error) {
	s := &store{ended: make(chan error, 1)}
	var err error
	if s.emulator, err = emulator.Start(); err != nil {
		return nil, err
	}
	if s.oracle, err = tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{}); err != nil {
		_ = s.emulator.Close()
		return nil, err
	}
	ctx, s.cancel = context.WithCancel(ctx)
	go func() { s.ended <- s.oracle.Run(ctx) }()
	if err := percolator.CreateSchema(ctx, "project", "instance", schema, s.emulator.ClientOptions()...); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *store) client(ctx context.Context) (*percolator.Client, error) {
	c, err := percolator.NewClient(ctx, percolator.Config{Project: "project", Instance: "instance", Oracle: s.oracle, Logger: slog.Default()}, s.emulator.ClientOptions()...)
	if err == nil {
		s.clients = append(s.clients, c)
	}
	return c, err
}

func (s *store) stop() {
	for _, c := range s.clients {
		_ = c.Close()
	}
	s.cancel()
	<-s.ended
	_ = s.emulator.Close()
}
