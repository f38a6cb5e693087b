package simulation

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
)

// TestHeaderlessStreamsAreAdoptedBesideADeadCollector: a collector dies while it erases, and its
// lease is in the way of the cycle that gives a stream a header again.
func TestHeaderlessStreamsAreAdoptedBesideADeadCollector(t *testing.T) {
	cfg, err := Config{Seed: 1, Faults: None}.detail()
	if err != nil {
		t.Fatal(err)
	}
	cfg.LockTTL = 10 * time.Second // and so a lease that outlives the first cycle
	if err := inBubble(t, "headerless", cfg.Seed, func() error { return headerlessBesideADeadCollector(t, cfg) }); err != nil {
		t.Error(err)
	}
}

func headerlessBesideADeadCollector(t *testing.T, cfg episode) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w, err := newWorld(cfg)
	if err != nil {
		return err
	}
	if err := w.setUp(ctx); err != nil {
		return err
	}
	p, err := w.open(ctx, "final")
	if err != nil {
		return err
	}
	w.advance(ctx, p, w.longAfter())
	if err := w.die(ctx, w.steps); err != nil {
		return err
	}
	if err := w.die(ctx, w.erases); err != nil {
		return err
	}
	s := p.client.Engine().Store
	streams, err := journal.Streams(ctx, s)
	for _, st := range streams {
		if err == nil {
			err = journal.Forget(ctx, s, st.ID, []uint64{0})
		}
	}
	if err != nil {
		return err
	}
	if n := w.headerless(ctx, p); n == 0 {
		t.Error("no stream is without a header")
	}
	w.adoptHeaderless(ctx, p)
	for _, wrong := range w.problems {
		t.Error(wrong)
	}
	return errors.Join(append(w.oracle.close(), p.leave())...)
}

// die has a process do something, and die of it or after it.
func (w *world) die(ctx context.Context, work func(*process) error) error {
	p, err := w.open(ctx, "mortal")
	if err != nil {
		return err
	}
	err = work(p)
	p.kill()
	return errors.Join(err, p.leave())
}

// steps makes transactions, some of which write.
func (w *world) steps(p *process) error {
	s := w.work.NewSession(p.client, p.name, p.Dead, p.rand)
	for range 20 {
		s.Step(p.ctx)
	}
	return nil
}

// erases begins a cycle of collection, and dies once it erases.
func (w *world) erases(p *process) error {
	cfg := w.collectorConfig()
	cfg.Progress = func(c model.Collection) {
		if c.Phase == model.CollectionErase {
			p.kill()
		}
	}
	g, err := admin.New(p.client).NewCollector(cfg)
	if err == nil {
		_, _ = g.Collect(p.ctx)
	}
	return err
}
