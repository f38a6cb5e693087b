package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// OracleTimes are the times of the servers of an oracle (tso.ServerConfig).
type OracleTimes struct {
	Lease        time.Duration
	Window       time.Duration
	SessionLease time.Duration
}

func (t OracleTimes) arguments() []string {
	return []string{"--lease", t.Lease.String(), "--window", t.Window.String(), "--session-lease", t.SessionLease.String()}
}

// Fig10Oracle is the process of one server of the oracle, whose record is in Bigtable. It prints where it listens, and hands
// over when its input ends.
func Fig10Oracle(ctx context.Context, address string, times OracleTimes, in io.Reader, out io.Writer) (err error) {
	bt, err := bigtable.NewClientWithConfig(ctx, benchInstance, benchInstance, bigtable.ClientConfig{
		MetricsProvider: bigtable.NoopMetricsProvider{}, DisableDirectAccess: true, DisableSession: true,
	}, emulator.Connect(address)...)
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, bt.Close()) }()
	server, err := tso.NewServer(tso.NewBigtableStore(bt.Open(tso.BigtableTable), benchInstance),
		tso.ServerConfig{Lease: times.Lease, Window: times.Window, SessionLease: times.SessionLease})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	if err := json.NewEncoder(out).Encode(addresses{Oracle: listener.Addr().String()}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	cancel()
	return firstOf(err, <-ended)
}

// fig10Order is a line that a worker reads.
type fig10Order struct {
	Outage *outageTimes `json:"outage,omitempty"`
	Sever  bool         `json:"sever,omitempty"` // get no commit through from now on
}

// fig10News is a line that a worker prints: which runs it has committed since the last one, and its counts so far.
type fig10News struct {
	Runs map[int64]time.Time `json:"runs,omitempty"` // by the transfer that they are for

	Stats         percolator.Stats `json:"stats"`
	LocksResolved int64            `json:"locks_resolved"` // by scans
	Refused       int64            `json:"refused"`
	Lost          int64            `json:"lost"`
	Held          int64            `json:"held"`
}

// newsEvery is how often a worker prints. What it has done since the last time dies with it.
const newsEvery = 20 * time.Millisecond

// Fig10Worker is the process of one worker, whose client is set up as cfg says. It prints its news until
// the input ends.
func Fig10Worker(ctx context.Context, at StoreAddresses, cfg Fig10Config, in io.Reader, out io.Writer) (err error) {
	faults := newOutage()
	var mu sync.Mutex
	runs := map[int64]time.Time{}
	faults.committed = func(row, column string, at time.Time) {
		if id, err := numberOf(row); err == nil && column == runsColumn {
			mu.Lock()
			runs[id] = at
			mu.Unlock()
		}
	}
	oracle, err := tso.Dial(ctx, at.Oracle)
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, oracle.Close()) }()
	client, err := percolator.NewClient(ctx, percolator.Config{Project: benchInstance, Instance: benchInstance, Oracle: oracle,
		LockTTL: cfg.LockTTL, DisableBatching: cfg.DisableBatching},
		slices.Concat(emulator.Connect(at.Bigtable), faults.options())...)
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, client.Close()) }()
	worker, err := observers.NewWorker(client, fig10Registry(), observers.Config{DisableCollection: true, DisableRowLocks: cfg.DisableRowLocks})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(running) }()
	ordered := make(chan error, 1)
	go func() { ordered <- takeOrders(in, faults) }()

	news := json.NewEncoder(out)
	ticks := time.NewTicker(newsEvery)
	defer ticks.Stop()
	for {
		mu.Lock()
		n := fig10News{Runs: runs}
		runs = map[int64]time.Time{}
		mu.Unlock()
		n.Stats, n.LocksResolved = client.Stats(), worker.Stats().LocksResolved
		n.Refused, n.Lost, n.Held = faults.refused.Load(), faults.lost.Load(), faults.held.Load()
		if err := news.Encode(n); err != nil {
			stop()
			return firstOf(err, <-ended)
		}
		select {
		case <-ticks.C:
		case err := <-ordered: // the end
			stop()
			return firstOf(err, <-ended)
		case err := <-ended:
			return fmt.Errorf("the worker ended: %w", err)
		}
	}
}

func takeOrders(in io.Reader, faults *outage) error {
	for orders := json.NewDecoder(in); ; {
		var o fig10Order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if o.Outage != nil {
			faults.schedule(*o.Outage)
		}
		if o.Sever {
			faults.severed.Store(true)
		}
	}
}

// fig10Registry has the observer of the journal, which counts its runs and says when the last one was.
func fig10Registry() *observers.Registry {
	r := observers.NewRegistry()
	r.Observe("post", fig10Journal, entryColumn, func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		cell := percolator.Cell{Table: fig10Journal, Row: ch.Cell.Row, Column: runsColumn}
		former, err := tx.Get(ctx, cell)
		if err != nil && !errors.Is(err, percolator.ErrNotFound) {
			return err
		}
		n, _, err := parseRuns(former)
		if err != nil {
			return err
		}
		return tx.Set(cell, fmt.Appendf(nil, "%d %d", n+1, time.Now().UnixNano()))
	})
	return r
}

// parseRuns reads a cell of the observer; there were no runs where there is none.
func parseRuns(value []byte) (runs int, last time.Time, err error) {
	if value == nil {
		return 0, last, nil
	}
	n, at, _ := bytes.Cut(value, []byte(" "))
	runs, err = strconv.Atoi(string(n))
	nanos, err2 := strconv.ParseInt(string(at), 10, 64)
	return runs, time.Unix(0, nanos), errors.Join(err, err2)
}
