package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// fig10Setting is how the processes are set up.
type fig10Setting struct {
	At      addresses     `json:"at"`
	LockTTL time.Duration `json:"lock_ttl"`
	// Of the servers of the oracle (tso.ServerConfig).
	Lease        time.Duration `json:"lease"`
	Window       time.Duration `json:"window"`
	SessionLease time.Duration `json:"session_lease"`

	NoBatching bool `json:"no_batching"` // of reads; for comparison
	// NoRowLocks lets the workers lock no rows against each other. Those that a killed worker has
	// locked are left alone by others for 10 s: short runs do not want to wait so long.
	NoRowLocks bool `json:"no_row_locks"`
}

func (s fig10Setting) client() percolator.Config {
	return percolator.Config{LockTTL: s.LockTTL, DisableBatching: s.NoBatching}
}

// fig10Oracle is the process of one server of the oracle, whose record is in Bigtable. It says
// where it listens, and hands over when its input ends.
func fig10Oracle(ctx context.Context, s fig10Setting, l *lines) (err error) {
	e := &environment{at: s.At, options: connectTo(s.At.Bigtable)}
	defer func() { err = errors.Join(err, e.close()) }()
	bt, err := e.raw(ctx)
	if err != nil {
		return err
	}
	server, err := tso.NewServer(tso.NewBigtableStore(bt.Open(tso.BigtableTable), instance),
		tso.ServerConfig{Lease: s.Lease, Window: s.Window, SessionLease: s.SessionLease})
	if err != nil {
		return err
	}
	if e.at.Oracle, err = e.serve(ctx, server); err != nil {
		return err
	}
	return errors.Join(l.say(e.at), l.untilEnd())
}

// fig10Order is a line that a worker hears.
type fig10Order struct {
	Outage *outageTimes `json:"outage,omitempty"`
	Sever  bool         `json:"sever,omitempty"` // get no commit through from now on
}

// fig10News is a line that a worker says: which runs it has committed since the last one, and its
// counts so far.
type fig10News struct {
	Runs map[int64]time.Time `json:"runs,omitempty"` // by the transfer that they are for

	Stats   percolator.Stats `json:"stats"`
	Refused int64            `json:"refused"`
	Lost    int64            `json:"lost"`
	Held    int64            `json:"held"`
}

func newsOf(c *percolator.Client, o *outage) fig10News {
	return fig10News{Stats: c.Stats(), Refused: o.refused.Load(), Lost: o.lost.Load(), Held: o.held.Load()}
}

// newsEvery is how often a worker speaks. What it has done since the last time dies with it.
const newsEvery = 20 * time.Millisecond

// fig10Worker is the process of one worker. It says its news until the input ends.
func fig10Worker(ctx context.Context, s fig10Setting, l *lines) (err error) {
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
	e, err := connectEnvironment(ctx, s.At)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	client, err := e.client(ctx, s.client(), faults.options()...)
	if err != nil {
		return err
	}
	if _, _, err := e.work(ctx, client, fig10Registry(), observers.Config{DisableRowLocks: s.NoRowLocks}); err != nil {
		return err
	}
	ordered := make(chan error, 1)
	go func() { ordered <- takeOrders(l, faults) }()
	ticks := time.NewTicker(newsEvery)
	defer ticks.Stop()
	for {
		n := newsOf(client, faults)
		mu.Lock()
		n.Runs, runs = runs, map[int64]time.Time{}
		mu.Unlock()
		if err := l.say(n); err != nil {
			return err
		}
		select {
		case <-ticks.C:
		case err := <-ordered: // the end
			return err
		}
	}
}

func takeOrders(l *lines, faults *outage) error {
	for {
		var o fig10Order
		if err := l.hear(&o); errors.Is(err, io.EOF) {
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

// fig10Registry has the observer of the journal, which counts its runs and says when the last one
// was.
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

// fig10Environment has two servers of the oracle and two workers in processes of their own, which
// can be killed, and a client in this process, whose requests go through an outage like the
// workers'.
type fig10Environment struct {
	*environment
	oracles map[string]*process // by address
	client  *percolator.Client
	faults  *outage
	workers []*fig10WorkerProcess
}

func startFig10(ctx context.Context, s fig10Setting, emulator string) (e *fig10Environment, err error) {
	e = &fig10Environment{faults: newOutage(), oracles: map[string]*process{}}
	if e.environment, err = newEnvironment(ctx, emulator, fig10Schema()); err != nil {
		return nil, err
	}
	_, err = e.orClose(e.open(ctx, s))
	return e, err
}

func (e *fig10Environment) open(ctx context.Context, s fig10Setting) (err error) {
	s.At = e.at
	var targets []string
	for range 2 {
		p, err := startPart(ctx, "fig10-oracle", s, collectSeldom()...)
		if err != nil {
			return err
		}
		e.closers = append(e.closers, p.stop)
		var at addresses
		if err := p.hear(&at); err != nil {
			return err
		}
		e.oracles[at.Oracle], targets = p, append(targets, at.Oracle)
	}
	s.At.Oracle = strings.Join(targets, ",")
	if _, err := e.dial(ctx, s.At.Oracle); err != nil {
		return err
	}
	if e.client, err = e.environment.client(ctx, s.client(), e.faults.options()...); err != nil {
		return err
	}
	for range 2 {
		w, err := startFig10Worker(ctx, s)
		if err != nil {
			return err
		}
		e.workers, e.closers = append(e.workers, w), append(e.closers, w.stop)
	}
	return nil
}

// leader returns the server of the oracle that leads.
func (e *fig10Environment) leader(ctx context.Context) (*process, error) {
	for {
		for at, p := range e.oracles {
			if s, err := tso.AskStatus(ctx, at); err == nil && s.Leading {
				return p, nil
			}
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return nil, fmt.Errorf("no server of the oracle leads: %w", err)
		}
	}
}

// breakTablets schedules the outage in every process.
func (e *fig10Environment) breakTablets(t outageTimes) (err error) {
	e.faults.schedule(t)
	for _, w := range e.workers {
		err = errors.Join(err, w.say(fig10Order{Outage: &t}))
	}
	return err
}

// counts is what all processes have counted so far.
func (e *fig10Environment) counts() map[string]int64 {
	sum := map[string]int64{}
	all := []fig10News{newsOf(e.client, e.faults)}
	for _, w := range e.workers {
		all = append(all, w.newest())
	}
	for _, n := range all {
		sum["rolled forward"] += n.Stats.RolledForward
		sum["rolled back"] += n.Stats.RolledBack
		sum["conflicts"] += n.Stats.Conflicts
		sum["refused"] += n.Refused
		sum["answers lost"] += n.Lost
	}
	return sum
}

// fig10WorkerProcess is a worker's process and what it has told.
type fig10WorkerProcess struct {
	*process
	mu   sync.Mutex
	news fig10News
	runs map[int64]time.Time
}

func startFig10Worker(ctx context.Context, s fig10Setting) (*fig10WorkerProcess, error) {
	p, err := startPart(ctx, "fig10-worker", s)
	if err != nil {
		return nil, err
	}
	w := &fig10WorkerProcess{process: p, runs: map[int64]time.Time{}}
	if err := p.hear(&w.news); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	p.reading.Go(func() {
		for {
			var n fig10News
			if p.hear(&n) != nil {
				return
			}
			w.mu.Lock()
			maps.Copy(w.runs, n.Runs)
			w.news = n
			w.mu.Unlock()
		}
	})
	return w, nil
}

func (w *fig10WorkerProcess) newest() fig10News {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.news
}
