package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/observers"
)

// Claims are decided, in batches, by an observer that cannot cope with some of them as long as the
// workload says so: then batches are cut up, and cells parked. Another observer of the column copes
// with all.
const (
	claims    = "claims"
	claimRows = 6
	difficult = "difficult"
	decider   = "decide" // the observer
)

// SetDifficult says whether some claims are too difficult from now on, for an observer of any
// worker.
func (w *Workload) SetDifficult(on bool) { w.difficult.Store(on) }

func (s *Session) claim(ctx context.Context) {
	s.transact(ctx, options{kind: "claim"}, func(_ context.Context, a *attempt) error {
		text := "easy"
		if s.Rand.IntN(3) == 0 {
			text = difficult
		}
		return a.set(cell(claims, fmt.Sprintf("claim%d", s.Rand.IntN(claimRows)), "claim"), a.unique(text))
	})
}

// Spares tells whether an operator may abandon what is parked: a claim that stays undecided then.
// It records that one does.
func (w *Workload) Spares(p observers.Parked) bool {
	if p.Observer != decider {
		return false
	}
	ack := cell(p.Cell.Table, p.Cell.Row, layout.AckColumn(p.Cell.Column, p.Observer))
	w.History.Drops(p.Observer, history.Cell(p.Cell), p.Through, history.Cell(ack))
	return true
}

func (w *Workload) observeClaims(r *observers.Registry, worker string) {
	r.ObserveBatch(decider, claims, "claim", w.observer(worker, decider, func(_ context.Context, a *attempt, ch observers.Change) error {
		if says(ch.Value) == difficult && w.difficult.Load() {
			return errors.New("too difficult")
		}
		return a.follow(cell(claims, ch.Cell.Row, "decision"), ch, says(ch.Value))
	}), observers.MaxCells(claimRows), observers.MaxWait(50*time.Millisecond))
	w.observe(r, worker, "file", claims, "claim", func(_ context.Context, a *attempt, ch observers.Change) error {
		if a.id%8 == 0 {
			return observers.Snooze(20 * time.Millisecond)
		}
		return a.follow(cell(claims, ch.Cell.Row, "file"), ch, says(ch.Value))
	})
}
