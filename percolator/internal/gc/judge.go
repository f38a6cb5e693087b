package gc

import (
	"context"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// MayBecomeGarbage reports whether a row holds something that is garbage, or will be without
// another commit to the row.
func MayBecomeGarbage(row layout.RowVersions) bool {
	g := collectible(row, tso.MaxTimestamp)
	return len(g.erasures) > 0 || len(g.tombstones) > 0 || g.postponed > 0
}

// Left reports what of a row the cycle up to watermark should have erased without a condition:
// records of transactions that committed, or nothing but what others have left.
func Left(row layout.RowVersions, watermark tso.Timestamp) (committed, other bool) {
	for _, e := range collectible(row, watermark).erasures {
		if other = true; e.family != layout.WriteFamily {
			continue
		}
		for _, w := range row[e.column].Writes {
			committed = committed || w.CommitTS >= e.from && w.CommitTS < e.to && w.Kind != layout.KindRollback
		}
	}
	return committed, other && !committed
}

// Completed is the GC watermark of a cycle that has come to its end; 0: it is not known now.
func Completed(ctx context.Context, e *engine.Engine) (tso.Timestamp, error) {
	st, err := collectorLease.Read(ctx, e)
	if err != nil || st.Phase == model.CollectionErase {
		return 0, err
	}
	m, err := e.Meta.Refresh(ctx)
	// The watermark may have been published meanwhile.
	if err != nil || st.Phase != model.CollectionDone && m.Watermark >= st.Safepoint {
		return 0, err
	}
	return min(m.Watermark, st.Safepoint), nil
}
