package simulation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// process is one incarnation of a process: a client with connections of its own to the store and to
// the oracle, and what it does.
type process struct {
	name   string
	client *percolator.Client
	rand   *rand.Rand

	store  *simulated.Connection
	oracle *tso.Client
	gate   gate

	ctx  context.Context // of its work
	stop context.CancelFunc
	work sync.WaitGroup
}

// Dead reports whether the process was killed: it heard nothing that it was told after that.
func (p *process) Dead() bool { return p.gate.killed() }

// open connects a process. Where the store or the oracle does not answer it tries again, as
// whatever starts processes does.
func (w *world) open(ctx context.Context, name string) (*process, error) {
	p := &process{name: name, rand: w.dice.next("process", name)}
	p.ctx, p.stop = context.WithCancel(ctx)
	w.conduct.meet(p)
	for ctx.Err() == nil {
		err := w.connect(p)
		if err == nil {
			return p, nil
		}
		if p.Dead() || w.calm.Load() {
			p.stop()
			return nil, fmt.Errorf("%s cannot start: %w", name, err)
		}
		w.note("%s starts again: %v", name, err)
		_ = retry.Sleep(ctx, time.Second)
	}
	p.stop()
	return nil, ctx.Err()
}

func (w *world) connect(p *process) error {
	line := &oracleLine{oracle: w.oracle, process: p.name, gate: &p.gate, rate: w.oracleRate}
	oracle, err := line.dial(p.ctx)
	if err != nil {
		return err
	}
	conn := w.cluster.Connect(p.name)
	client, err := percolator.NewClient(p.ctx, w.config(p, forgetful{oracle, line}), store.OnBackend(conn))
	if err != nil {
		return errors.Join(err, oracle.Close())
	}
	if w.cfg.owned > 0 {
		client.Engine().Journal.Own.Limit(w.cfg.owned)
	}
	p.store, p.oracle, p.client = conn, oracle, client
	return nil
}

// config is that of every client, but that some of those who keep snapshots count on a longer
// retention than the collectors: the safepoint alone tells them that one is too old. To the others
// a hold tells that theirs is not.
func (w *world) config(p *process, oracle tso.Oracle) percolator.Config {
	cfg := percolator.Config{
		Project: "simulated", Instance: "simulated", Oracle: oracle, LockTTL: w.cfg.LockTTL, Retention: w.cfg.Retention,
		Logger: slog.New(slog.DiscardHandler),
	}
	if strings.HasPrefix(p.name, lingerer) && p.rand.IntN(2) == 0 {
		cfg.Retention *= 10
	}
	return cfg
}

// kill ends the process at once: nothing is sent or heard any more, and nothing is cleared away.
// What it had sent may still arrive.
func (p *process) kill() {
	p.store.Kill()
	p.gate.kill()
	p.stop()
}

// suspend stops the process, or its machine, until the function that it returns is called.
func (p *process) suspend(how simulated.Condition) (resume func()) {
	p.gate.shut()
	p.store.Suspend(how)
	return func() {
		p.store.Resume()
		p.gate.open()
	}
}

// leave ends the work of the process, waits for it and closes the client.
func (p *process) leave() error {
	p.stop()
	p.work.Wait()
	err := p.client.Close()
	if oerr := p.oracle.Close(); err == nil {
		err = oerr
	}
	if p.Dead() {
		return nil
	}
	return err
}
