package measure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"google.golang.org/api/option"

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
	defer e.closeInto(&err)
	e.serveOracle(ctx, tso.NewBigtableStore(e.raw(ctx)(tso.BigtableTable), instance),
		tso.ServerConfig{Lease: s.Lease, Window: s.Window, SessionLease: s.SessionLease})
	if e.err != nil {
		return e.err
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
	Runs map[string]time.Time `json:"runs,omitempty"` // by their rows of the journal

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
	faults, clock := newOutage(), newCommitClock()
	e := connectEnvironment(ctx, s.At)
	defer e.closeInto(&err)
	client := e.client(ctx, s.client(), append([]option.ClientOption{clock.option()}, faults.options()...)...)
	e.work(ctx, client, fig10Registry(), observers.Config{DisableRowLocks: s.NoRowLocks})
	if e.err != nil {
		return e.err
	}
	ordered := make(chan error, 1)
	go func() {
		ordered <- listen(l, func(o fig10Order) error {
			if o.Outage != nil {
				faults.schedule(*o.Outage)
			}
			if o.Sever {
				faults.severed.Store(true)
			}
			return nil
		})
	}()
	ticks := time.NewTicker(newsEvery)
	defer ticks.Stop()
	for {
		n := newsOf(client, faults)
		n.Runs = clock.take(runsColumn)
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

// fig10Registry has the observer of the journal, which counts its runs and says when the last one
// was.
func fig10Registry() *observers.Registry {
	r := observers.NewRegistry()
	r.Observe("post", fig10Journal, entryColumn, func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		r, err := journalRuns.GetOr(ctx, tx, ch.Cell.Row, runs{})
		if err != nil {
			return err
		}
		return journalRuns.Set(tx, ch.Cell.Row, runs{r.N + 1, time.Now()})
	})
	return r
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

func startFig10(ctx context.Context, s fig10Setting, emulator string) (*fig10Environment, error) {
	e := &fig10Environment{faults: newOutage(), oracles: map[string]*process{}, environment: newEnvironment(ctx, emulator, fig10Schema())}
	s.At = e.at
	var targets []string
	for range 2 {
		var at addresses
		p := e.part(ctx, "fig10-oracle", s, &at, collectSeldom()...)
		e.oracles[at.Oracle], targets = p, append(targets, at.Oracle)
	}
	s.At.Oracle = strings.Join(targets, ",")
	e.dial(ctx, s.At.Oracle)
	e.client = e.environment.client(ctx, s.client(), e.faults.options()...)
	for range 2 {
		e.workers = append(e.workers, startFig10Worker(ctx, e.environment, s))
	}
	return e, e.orClose()
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
	runs map[string]time.Time // by row
}

func startFig10Worker(ctx context.Context, e *environment, s fig10Setting) *fig10WorkerProcess {
	w := &fig10WorkerProcess{runs: map[string]time.Time{}}
	w.process = e.part(ctx, "fig10-worker", s, &w.news)
	if e.err != nil {
		return nil
	}
	w.reading.Go(func() {
		for {
			var n fig10News
			if w.hear(&n) != nil {
				return
			}
			w.mu.Lock()
			maps.Copy(w.runs, n.Runs)
			w.news = n
			w.mu.Unlock()
		}
	})
	return w
}

func (w *fig10WorkerProcess) newest() fig10News {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.news
}
