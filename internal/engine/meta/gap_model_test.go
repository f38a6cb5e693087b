package meta_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
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
		repair(t, l, &meta.Repair{To: to, Floor: floor}, now)
		m, err := l.Meta.Refresh(ctx)
		if err != nil {
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

// repair stores the fence of a repair, and lifts it at now.
func repair(t testing.TB, l *layertest.Layers, r *meta.Repair, now tso.Timestamp) {
	t.Helper()
	ctx := t.Context()
	if _, err := l.Meta.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	fence := &meta.Fence{ID: "r", Started: time.Unix(0, 0), Repair: r}
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
}

// TestGapsHaveALimit: beyond it the oldest gaps become one. What a repair has removed stays
// removed, also of a longer list that an earlier version has stored, and between the others every
// snapshot is answered (I24).
func TestGapsHaveALimit(t *testing.T) {
	t.Parallel()
	const most, period = 100, 10
	l := layertest.New(t, layertest.StartEmulator(t), "i")
	gapOf := func(n int) meta.Gap { // the nth repair goes to the middle of its period, and ends with it
		end := tso.Timestamp(1000 + period*n)
		return meta.Gap{After: end - period/2, Until: end}
	}
	check := func(repairs int, merged int) {
		t.Helper()
		m, err := l.Meta.Refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := min(repairs, most); len(m.Gaps) != want {
			t.Fatalf("%d gaps after %d repairs, want %d", len(m.Gaps), repairs, want)
		}
		for n := range repairs {
			if g := gapOf(n); !in(m, g.After+1) || !in(m, g.Until) {
				t.Errorf("after %d repairs: what the repair %d has removed is answered", repairs, n)
			}
			if before := gapOf(n).After; in(m, before) != (n > 0 && n < merged) {
				t.Errorf("after %d repairs: whether the snapshot before the repair %d is refused: %v", repairs, n, in(m, before))
			}
		}
	}
	for n := range most + 2 {
		g := gapOf(n)
		repair(t, l, &meta.Repair{To: g.After}, g.Until)
		if n >= most-1 {
			check(n+1, n+2-most)
		}
	}

	var longer []meta.Gap
	for n := most + 5; n >= 0; n-- {
		longer = append(longer, gapOf(n))
	}
	value, err := json.Marshal(longer)
	if err != nil {
		t.Fatal(err)
	}
	mut := store.NewMutation(1)
	mut.Put(layout.MetaFamily, "repairs", store.MetaTimestamp, value)
	if err := l.Store.Mutate(t.Context(), model.MetaTable, meta.RowKey, mut); err != nil {
		t.Fatal(err)
	}
	last := gapOf(most + 6)
	repair(t, l, &meta.Repair{To: last.After}, last.Until)
	check(most+7, 8)
}

func in(m meta.State, ts tso.Timestamp) bool {
	_, in := m.InGap(ts)
	return in
}
