package meta

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A repair makes the instance what it was at To. A snapshot above To, taken before the repair was
// over, has seen what is gone, and a transaction from before it may have lost locks. Neither ends
// with the fence: a program may hold either in its hand for the whole time of a repair. So the
// mutation that lifts the fence stores the gap.

const columnGaps = "repairs"

// Gap is what a repair has removed: no snapshot above After, up to Until, is answered, and no
// transaction that began at or before Until commits.
type Gap struct{ After, Until tso.Timestamp }

// maxGaps is how many gaps are stored.
const maxGaps = 100

// bounded are at most maxGaps gaps, the newest first. The oldest become one: a repair that is done
// must not fail, and the snapshots between them are refused then, too.
func bounded(gaps []Gap) []Gap {
	if over := gaps[min(len(gaps), maxGaps):]; len(over) > 0 {
		gaps[maxGaps-1].After = over[len(over)-1].After
	}
	return gaps[:min(len(gaps), maxGaps)]
}

// InGap returns the gap that a snapshot lies in.
func (m State) InGap(ts tso.Timestamp) (Gap, bool) {
	at := slices.IndexFunc(m.Gaps, func(g Gap) bool { return ts > g.After && ts <= g.Until })
	if at < 0 {
		return Gap{}, false
	}
	return m.Gaps[at], true
}

func (m State) checkGap(ts tso.Timestamp) error {
	if g, in := m.InGap(ts); in {
		return fmt.Errorf("percolator: %w: the snapshot at %d was removed by a repair to %d", model.ErrSnapshotTooOld, ts, g.After)
	}
	return nil
}

// CheckCommit refuses the commit of a transaction from before a repair, or from before an import
// into one of tables.
func (w *Watcher) CheckCommit(ctx context.Context, startTS tso.Timestamp, tables iter.Seq[string]) error {
	m, err := w.Known(ctx)
	if err != nil {
		return err
	}
	for _, g := range m.Gaps {
		if startTS <= g.Until {
			return fmt.Errorf("percolator: transaction %d: %w: it began before a repair to %d ended; run it again", startTS, model.ErrConflict, g.After)
		}
	}
	return m.checkImported(startTS, tables)
}

// LiftRepair ends the repair of the fence old at now, by one mutation: the fence goes, the gap and
// the safepoint come, and so go the holds that keep nothing any more.
func (w *Watcher) LiftRepair(ctx context.Context, m State, now tso.Timestamp) (lifted bool, err error) {
	r := m.Fence.Repair
	gaps := []Gap{{r.To, now}}
	for _, g := range m.Gaps {
		if g.After < r.To && g.Until > r.Floor {
			gaps = append(gaps, g)
		}
	}
	mut := store.NewMutation(4)
	mut.Put(layout.MetaFamily, columnGaps, store.MetaTimestamp, layout.JSON(bounded(gaps)))
	mut.Put(layout.MetaFamily, metaSafe, store.MetaTimestamp, encodeTimestamp(r.Floor))
	mut.Put(layout.MetaFamily, metaNow, store.MetaTimestamp, encodeTimestamp(now))
	m.reopenImports(r.To, mut)
	for _, h := range m.Holds {
		if !HoldKeeps(h, r.To, r.Floor) {
			mut.EraseColumn(layout.MetaFamily, holdColumn(h))
		}
	}
	return w.ReplaceFence(ctx, m.Fence, nil, mut)
}

// HoldKeeps reports whether a hold protects the snapshot at ts from a collector that has announced
// safepoint.
func HoldKeeps(h model.Hold, ts, safepoint tso.Timestamp) bool {
	return h.Timestamp <= ts && h.Timestamp > safepoint
}
