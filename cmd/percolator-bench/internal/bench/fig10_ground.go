package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// fig10Ground is what fig10 stands on: an emulator, two servers of the oracle and two workers in processes of their own, which
// can be killed, and a client in this process, whose requests go through an outage like the workers'.
type fig10Ground struct {
	ground
	oracles []*child
	client  *percolator.Client
	faults  *outage
	workers []*fig10WorkerProcess
}

func startFig10(ctx context.Context, cfg Fig10Config) (_ *fig10Ground, err error) {
	g := &fig10Ground{faults: newOutage()}
	defer func() {
		if err != nil {
			_ = g.close()
		}
	}()
	if err := g.startEmulator(cfg.Emulator); err != nil {
		return nil, err
	}
	if err := percolator.CreateSchema(ctx, benchInstance, benchInstance, fig10Schema(), g.options...); err != nil {
		return nil, err
	}
	var targets []string
	for range 2 {
		c, err := startChild(ctx, cfg.Self, collectSeldom(),
			slices.Concat([]string{"oracle", "--bigtable", g.address}, cfg.Oracle.arguments())...)
		if err != nil {
			return nil, err
		}
		g.oracles = append(g.oracles, c)
		g.closers = append(g.closers, func() error { return endChild(c) })
		if err := c.hear(&c.addresses); err != nil {
			return nil, err
		}
		targets = append(targets, c.addresses.Oracle)
	}
	at := StoreAddresses{Bigtable: g.address, Oracle: strings.Join(targets, ",")}
	oracle, err := tso.Dial(ctx, at.Oracle)
	if err != nil {
		return nil, err
	}
	g.oracle = oracle
	g.closers = append(g.closers, oracle.Close)
	settings := percolator.Config{LockTTL: cfg.LockTTL, DisableBatching: cfg.DisableBatching}
	if g.client, err = g.ground.client(ctx, settings, g.faults.options()...); err != nil {
		return nil, err
	}
	for range 2 {
		w, err := startFig10Worker(ctx, cfg, at)
		if err != nil {
			return nil, err
		}
		g.workers = append(g.workers, w)
		g.closers = append(g.closers, w.end)
	}
	return g, nil
}

// endChild ends a child, or notes that it was killed.
func endChild(c *child) error {
	if c.cmd.ProcessState != nil {
		return nil
	}
	return c.stop()
}

// killChild ends a child as a machine that loses its power ends it, and waits until it is gone.
func killChild(c *child) error {
	if err := c.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = c.cmd.Wait() // it says that it was killed, and closes the pipes
	return nil
}

// leader returns the server of the oracle that leads.
func (g *fig10Ground) leader(ctx context.Context) (*child, error) {
	for {
		for _, c := range g.oracles {
			if s, err := tso.AskStatus(ctx, c.addresses.Oracle); err == nil && s.Leading {
				return c, nil
			}
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return nil, fmt.Errorf("no server of the oracle leads: %w", err)
		}
	}
}

// breakTablets schedules the outage in every process.
func (g *fig10Ground) breakTablets(t outageTimes) error {
	g.faults.schedule(t)
	for _, w := range g.workers {
		if err := w.tell(fig10Order{Outage: &t}); err != nil {
			return err
		}
	}
	return nil
}

// fig10Counts is what all processes have counted so far.
type fig10Counts struct {
	RolledForward, RolledBack, Conflicts int64
	Refused, Lost                        int64
}

func (g *fig10Ground) counts() (sum fig10Counts) {
	all := []fig10News{{Stats: g.client.Stats(), Refused: g.faults.refused.Load(), Lost: g.faults.lost.Load()}}
	for _, w := range g.workers {
		all = append(all, w.newest())
	}
	for _, n := range all {
		sum.RolledForward += n.Stats.RolledForward
		sum.RolledBack += n.Stats.RolledBack
		sum.Conflicts += n.Stats.Conflicts
		sum.Refused += n.Refused
		sum.Lost += n.Lost
	}
	return sum
}

// minus returns what was counted since former.
func (c fig10Counts) minus(former fig10Counts) fig10Counts {
	return fig10Counts{c.RolledForward - former.RolledForward, c.RolledBack - former.RolledBack, c.Conflicts - former.Conflicts,
		c.Refused - former.Refused, c.Lost - former.Lost}
}

// fig10WorkerProcess is a worker's process and what it has told.
type fig10WorkerProcess struct {
	*child
	told chan struct{} // closed when it tells no more

	mu   sync.Mutex
	news fig10News
	runs map[int64]time.Time
}

func startFig10Worker(ctx context.Context, cfg Fig10Config, at StoreAddresses) (*fig10WorkerProcess, error) {
	c, err := startChild(ctx, cfg.Self, nil, slices.Concat([]string{"worker", "--lock-ttl", cfg.LockTTL.String(),
		"--no-batching=" + strconv.FormatBool(cfg.DisableBatching), "--no-row-locks=" + strconv.FormatBool(cfg.DisableRowLocks)}, at.arguments())...)
	if err != nil {
		return nil, err
	}
	w := &fig10WorkerProcess{child: c, told: make(chan struct{}), runs: map[int64]time.Time{}}
	if err := c.hear(&w.news); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	go func() {
		defer close(w.told)
		for {
			var n fig10News
			if c.hear(&n) != nil {
				return
			}
			w.mu.Lock()
			for id, at := range n.Runs {
				w.runs[id] = at
			}
			w.news = n
			w.mu.Unlock()
		}
	}()
	return w, nil
}

func (w *fig10WorkerProcess) newest() fig10News {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.news
}

// end ends the process; one that was killed has ended.
func (w *fig10WorkerProcess) end() error {
	if w.cmd.ProcessState != nil {
		return nil
	}
	err := w.in.Close()
	<-w.told // the pipe has to be empty before Wait closes it
	return errors.Join(err, w.cmd.Wait())
}

// kill kills the process and returns when everything that it had told is known.
func (w *fig10WorkerProcess) kill() error {
	if err := w.cmd.Process.Kill(); err != nil {
		return err
	}
	<-w.told
	_ = w.cmd.Wait() // it says that it was killed
	return nil
}
