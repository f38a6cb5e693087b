package commit

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/tso"
)

// phaseTwo commits the secondaries in the background. The caller waits for their places in the
// queue no longer than store.Offer says, and not at all when its context has ended.
func (cm *commit) phaseTwo(ctx context.Context, commitTS tso.Timestamp) {
	if len(cm.rows) == 1 {
		return
	}
	watch := cm.c.watchPhaseTwo(ctx, len(cm.rows)-1)
	offer := cm.c.Bulk.Offer(ctx)
	for rest := range slices.Chunk(cm.rows[1:], store.RequestRows) {
		muts := make([]store.RowMutation, 0, len(rest))
		for _, rw := range rest {
			muts = append(muts, store.RowMutation{Table: rw.table, Row: rw.row, Mut: cm.commitMutation(rw, commitTS), Deadline: cm.until, Done: func(err error) {
				cm.rowDone(rw, commitTS, err)
				watch.rowDone(err)
			}})
		}
		offer.Add(muts...)
	}
}

// phaseTwoWatch measures phase two of one transaction, which outlasts Commit: its span is a child
// of the commit's and ends later.
type phaseTwoWatch struct {
	c       *Committer
	ctx     context.Context
	span    telemetry.Span
	started time.Time
	left    atomic.Int64 // rows
	failed  atomic.Int64
}

func (c *Committer) watchPhaseTwo(ctx context.Context, rows int) *phaseTwoWatch {
	w := &phaseTwoWatch{c: c, started: time.Now()}
	w.ctx, w.span = c.Store.Trace.Start(ctx, "percolator.phase_two", "")
	w.span.Count("percolator.rows", rows)
	w.left.Store(int64(rows))
	return w
}

// rowDone counts a row that phase two has committed, or has left to lock resolution. The last one
// ends the span.
func (w *phaseTwoWatch) rowDone(err error) {
	if err != nil {
		w.failed.Add(1)
		w.c.Store.Count.PhaseTwoLeft.Add(1)
	}
	if w.left.Add(-1) > 0 {
		return
	}
	if n := w.failed.Load(); n > 0 {
		w.span.Count("percolator.rows.failed", int(n))
		if err == nil {
			err = errPhaseTwo
		}
	}
	w.c.Store.Metrics.Phase(w.ctx, "phase_two", w.started, err)
	w.span.End(err)
}

// errPhaseTwo stands for the failure of a row that was not the last.
var errPhaseTwo = errors.New("a row was left to lock resolution")
