package emulator

import (
	"sync"
	"sync/atomic"
)

// tables holds what is known of each table: its lock, and where a scan of it may be cut. The zero
// value is ready for use.
type tables struct {
	mu     sync.Mutex
	byName map[string]*table
}

// table keeps the row reads (read side) and the mutations (write side) of one table apart. A
// request takes one such lock only, and never sends to a client while it holds it.
type table struct {
	sync.RWMutex
	users  int // requests that hold a reference; guarded by tables.mu
	splits atomic.Pointer[[]string]

	families    atomic.Pointer[map[string]bool] // nil: unknown
	outstanding atomic.Int64                    // mutations
	sizes       rowSizes                        // guarded by the lock
}

// use returns the named table; the caller calls done afterwards. A table without users of which
// nothing is known is forgotten, so that requests for unknown names leave nothing behind.
func (ts *tables) use(name string) (t *table, done func()) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t = ts.byName[name]
	if t == nil {
		t = new(table)
		if ts.byName == nil {
			ts.byName = make(map[string]*table)
		}
		ts.byName[name] = t
	}
	t.users++
	return t, func() { ts.leave(name, t) }
}

func (ts *tables) leave(name string, t *table) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.users--
	if t.users == 0 && t.splits.Load() == nil && t.families.Load() == nil && t.sizes.written == nil {
		delete(ts.byName, name)
	}
}

// knownSplits returns row keys about splitRows apart, ascending; none for a table that was never
// found to be large. They are a hint and may be out of date.
func (t *table) knownSplits() []string {
	if s := t.splits.Load(); s != nil {
		return *s
	}
	return nil
}
