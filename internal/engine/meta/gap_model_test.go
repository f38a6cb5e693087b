package meta_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// TestGapsOfRepairs: after any number of repairs, back and further back, no snapshot that one of
// them has removed is answered, every other one above the safepoint is, and no transaction from
// before the last one commits (I24).
func TestGapsOfRepairs(t *testing.T) {
	t.Parallel()
	ctx, l := t.Context(), layertest.New(t, layertest.StartEmulator(t), "i")
	now, floor := tso.Timestamp(1000), tso.Timestamp(0)
	removed := map[tso.Timestamp]bool{}
	for n := range 40 {
		now += 1 + tso.Timestamp(rand.IntN(40))
		to := floor + 1 + tso.Timestamp(rand.Int64N(int64(now-floor)))
		floor = max(floor, to-1-tso.Timestamp(rand.IntN(100)))
		if _, err := l.Meta.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		fence := &meta.Fence{ID: "r", Started: time.Unix(0, 0), Repair: &meta.Repair{To: to, Floor: floor}}
		if ok, err := l.Meta.ReplaceFence(ctx, nil, fence, store.NewMutation(1)); err != nil || !ok {
			t.Fatal(ok, err)
		}
		m, err := l.Meta.Refresh(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := l.Meta.LiftRepair(ctx, m, now); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if m, err = l.Meta.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		for ts := to + 1; ts <= now; ts++ {
			removed[ts] = true
		}
		for ts := floor + 1; ts <= now+5; ts++ {
			if _, in := m.InGap(ts); in != removed[ts] {
				t.Fatalf("repair %d, to %d at %d: the snapshot at %d is in a gap: %v of %v", n, to, now, ts, in, m.Gaps)
			}
		}
		for _, ts := range []tso.Timestamp{1, to, now, now + 1} {
			if err := l.Meta.CheckCommit(ctx, ts, nil); errors.Is(err, model.ErrConflict) != (ts <= now) {
				t.Errorf("repair %d: a transaction of %d commits after %d: %v", n, ts, now, err)
			}
		}
	}
}
