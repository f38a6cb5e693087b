package locks_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/locks"
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
	if s, err := l.Locks.Resolve(ctx, at, seen, locks.SeenJustNow); err != nil || s.Resolution != model.LockAlive {
		t.Errorf("%v, %v", s.Resolution, err)
	}
	rv, err := l.Store.ReadVersions(ctx, "t", "r", store.Newest(nil, 0, 1))
	if err != nil || rv["c"] == nil || len(rv["c"].Locks) != 1 {
		t.Errorf("the lock is gone: %v, %v", rv["c"], err)
	}
}

// A lock is seen once or twice, and is alive or dead: what becomes of it, and what that costs.
func TestResolveByWhatIsSeen(t *testing.T) {
	t.Parallel()
	em := layertest.StartEmulator(t)
	const alive, dead, refreshed = "alive", "dead", "refreshed"
	for name, c := range map[string]struct {
		on             string // the row of the lock; the primary's is r
		seen           locks.Sight
		lock, read     string // as the caller has read it, and as the primary holds it; "": nothing
		want           model.Resolution
		reads, changes int64
	}{
		"once, alive":              {"r", locks.SeenJustNow, alive, alive, model.LockAlive, 0, 0},
		"twice, refreshed":         {"r", locks.SeenJustNow, dead, refreshed, model.LockAlive, 1, 0},
		"twice, dead":              {"r", locks.SeenJustNow, dead, dead, model.LockRolledBack, 1, 1},
		"earlier, alive":           {"r", locks.SeenEarlier, alive, alive, model.LockAlive, 1, 0},
		"earlier, dead":            {"r", locks.SeenEarlier, dead, dead, model.LockRolledBack, 1, 1},
		"secondary of alive":       {"s", locks.SeenJustNow, alive, alive, model.LockAlive, 1, 0},
		"secondary of refreshed":   {"s", locks.SeenJustNow, dead, refreshed, model.LockAlive, 1, 0},
		"secondary of dead":        {"s", locks.SeenJustNow, dead, dead, model.LockRolledBack, 1, 2},
		"secondary of nothing":     {"s", locks.SeenJustNow, alive, "", model.LockAlive, 1, 0},
		"dead secondary of nobody": {"s", locks.SeenJustNow, dead, "", model.LockRolledBack, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, l := t.Context(), layertest.New(t, em, "i-"+strings.NewReplacer(",", "", " ", "-").Replace(name))
			start, err := l.Clock.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			record := func(life string) layout.LockRecord {
				ttl := map[string]time.Duration{alive: time.Minute, refreshed: time.Hour}[life]
				return layout.LockRecord{StartTS: start, Kind: layout.KindPut, Primary: model.Cell{Table: "t", Row: "r", Column: "c"}, Placed: start, TTL: ttl}
			}
			met := record(c.lock)
			if layertest.Plant(t, l.Store, c.on, layout.LockFamily, "c", start, met.Encode()); c.read != "" {
				onPrimary := record(c.read)
				layertest.Plant(t, l.Store, "r", layout.LockFamily, "c", start, onPrimary.Encode())
			}
			reads, changes := l.Store.Count.ReadRows.Load(), l.Store.Count.CheckAndMutate.Load()
			s, err := l.Locks.Resolve(ctx, model.Cell{Table: "t", Row: c.on, Column: "c"}, met, c.seen)
			if err != nil || s.Resolution != c.want {
				t.Errorf("%v, %v; want %v", s.Resolution, err, c.want)
			}
			reads, changes = l.Store.Count.ReadRows.Load()-reads, l.Store.Count.CheckAndMutate.Load()-changes
			if reads != c.reads || changes != c.changes {
				t.Errorf("%d reads and %d changes, want %d and %d", reads, changes, c.reads, c.changes)
			}
		})
	}
}
