package simulation

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator/model"
)

// journals is whether, in this episode, the journal is turned off for a while, and how far that has
// come.
type journals struct {
	off, on atomic.Bool // an operator has done so
}

// turnJournal turns the journal off and on again, in some episodes. What workers and collectors
// find by passes then, and what a sweep has to find before they go by the journal again, is as
// right as before.
func (w *world) turnJournal(p *process) {
	for w.cfg.turnsJournal && !w.journals.on.Load() && retry.Sleep(p.ctx, time.Duration(p.rand.Int64N(int64(journalEvery)))) == nil {
		turn, off := &w.journals.off, true
		if turn.Load() {
			turn, off = &w.journals.on, false
		}
		if err := w.setJournal(p.ctx, p, off); err != nil {
			w.note("%s: turning the journal: %v", p.name, err)
			continue
		}
		turn.Store(true)
		w.note("%s: the journal is off: %v", p.name, off)
		w.tally.add(journalTurned)
	}
	<-p.ctx.Done()
}

// journalEvery bounds how long the journal stays as it is, beside what is waited in lulls.
const journalEvery = 4 * time.Second

func (w *world) setJournal(ctx context.Context, p *process, off bool) error {
	return w.addToSchema(ctx, p, func(s *model.Schema) { s.DisableJournal = off })
}

// finishJournal turns the journal on for good: it may be off although its operator was not told so.
// The sweep that builds it comes with the others.
func (w *world) finishJournal(ctx context.Context, p *process) {
	if !w.cfg.turnsJournal {
		return
	}
	if err := w.setJournal(ctx, p, false); err != nil {
		w.problem("the journal is not turned on after the last fault: %v", err)
	}
}
