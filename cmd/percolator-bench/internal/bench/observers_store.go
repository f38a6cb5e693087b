package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// The store of the benchmarks of observers. Column "0" is written by the benchmark; the observer of a hop writes the next
// number, and the last of a chain is not observed. Everything is in one row, so that each run has one commit request.
const (
	benchInstance = "bench"
	benchTable    = "t"
	bodyColumn    = "body" // of clean rows: not observed
)

func hopColumn(i int) string { return strconv.Itoa(i) }

func benchCell(row, column string) percolator.Cell {
	return percolator.Cell{Table: benchTable, Row: row, Column: column}
}

func benchSchema(hops int) *percolator.Schema {
	t := percolator.Table{Name: benchTable}
	for i := range hops {
		t.Observed = append(t.Observed, hopColumn(i))
	}
	return &percolator.Schema{Tables: []percolator.Table{t}}
}

// benchRegistry has an observer for each hop, which copies what it was called for to the next column.
func benchRegistry(hops int) *observers.Registry {
	r := observers.NewRegistry()
	for i := range hops {
		r.Observe("hop-"+hopColumn(i), benchTable, hopColumn(i), func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
			return tx.Set(benchCell(ch.Cell.Row, hopColumn(i+1)), ch.Value)
		})
	}
	return r
}

// store is an emulator and an oracle in this process, with a client whose commits a clock sees.
type store struct {
	client  *percolator.Client
	clock   *commitClock
	closers []func() error
}

func startStore(ctx context.Context, hops int) (_ *store, err error) {
	s := new(store)
	defer func() {
		if err != nil {
			_ = s.close()
		}
	}()
	bigtable, err := emulator.Start()
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, bigtable.Close)
	oracle, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // until the client is closed
	ended := make(chan error, 1)
	go func() { ended <- oracle.Run(running) }()
	s.closers = append(s.closers, func() error { stop(); return <-ended })
	if err := percolator.CreateSchema(ctx, benchInstance, benchInstance, benchSchema(hops), bigtable.ClientOptions()...); err != nil {
		return nil, err
	}
	if s.client, s.clock, err = openClient(ctx, oracle, bigtable.ClientOptions()); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.client.Close)
	return s, nil
}

func openClient(ctx context.Context, oracle tso.Oracle, opts []option.ClientOption) (*percolator.Client, *commitClock, error) {
	clock := newCommitClock()
	client, err := percolator.NewClient(ctx, percolator.Config{Project: benchInstance, Instance: benchInstance, Oracle: oracle},
		append(slices.Clone(opts), clock.option())...)
	return client, clock, err
}

func (s *store) close() (err error) {
	for _, f := range slices.Backward(s.closers) {
		err = firstOf(err, f())
	}
	return err
}

// startWorker runs a worker until stop is called.
func startWorker(ctx context.Context, c *percolator.Client, hops int, cfg observers.Config) (w *observers.Worker, stop func() error, err error) {
	cfg.DisableCollection = true // an emulator that lives for seconds has nothing to collect
	if w, err = observers.NewWorker(c, benchRegistry(hops), cfg); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return w, func() error {
		cancel()
		if err := <-ended; err != nil {
			return fmt.Errorf("worker: %w", err)
		}
		return nil
	}, nil
}

// write commits a write of column "0" that notifies.
func write(ctx context.Context, c *percolator.Client, row string) error {
	_, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		return tx.Set(benchCell(row, hopColumn(0)), []byte("a value of some twenty bytes"))
	}, percolator.Blind())
	return err
}
