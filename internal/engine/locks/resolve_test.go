package locks_test

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
)

// A lock that seems dead on an old look is looked at again before anything is rolled back: its
// owner may have refreshed it since.
func TestStaleLookAtALockRollsNothingBack(t *testing.T) {
	t.Parallel()
	ctx, l := t.Context(), layertest.New(t, layertest.StartEmulator(t), "i")
	now, err := l.Clock.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	at := model.Cell{Table: "t", Row: "r", Column: "c"}
	seen := layout.LockRecord{StartTS: now, Kind: layout.KindPut, Primary: at, Placed: now, TTL: 0}
	refreshed := seen
	refreshed.TTL = time.Hour
	layertest.Plant(t, l.Store, "r", layout.LockFamily, "c", now, refreshed.Encode())
	if s, err := l.Locks.Resolve(ctx, at, seen, true); err != nil || s.Resolution != model.LockAlive {
		t.Errorf("%v, %v", s.Resolution, err)
	}
	rv, err := l.Store.ReadVersions(ctx, "t", "r", store.Newest(nil, 0, 1))
	if err != nil || rv["c"] == nil || len(rv["c"].Locks) != 1 {
		t.Errorf("the lock is gone: %v, %v", rv["c"], err)
	}
}
