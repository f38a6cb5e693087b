package reads

import (
	"sync"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// readCacheBytes bounds what one snapshot keeps of what it has read.
const readCacheBytes = 32 << 20

// readCache holds what a snapshot has read, absence included: a snapshot cannot change.
type readCache struct {
	mu    sync.Mutex
	cells map[model.Cell]*cachedCell
	rows  map[model.Cell]readShape // first request for a row, keyed by the cell without column
	known map[model.Cell]bool      // rows with all their values in cells; keyed likewise
	bytes int

	digests *digests // of what the caller asked for and cells has no room for; nil: not needed
}

// cachedCell is one cell's value, nil for absence.
type cachedCell struct {
	value      []byte
	expires    tso.Timestamp // of a value; 0: it does not
	prefetched bool          // the caller has not asked for it yet
}

func (rc *readCache) has(c model.Cell) bool {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return rc.cells[c] != nil
}

// take returns what is cached of a cell. From then on the caller has asked for it.
func (rc *readCache) take(c model.Cell) (kept cachedCell, ok bool) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	cc := rc.cells[c]
	if cc == nil {
		if !rc.known[model.Cell{Table: c.Table, Row: c.Row}] {
			return kept, false
		}
		rc.remember(c, &cachedCell{}) // for asked
		return kept, true
	}
	kept, cc.prefetched = *cc, false
	return kept, true
}

// asked returns what is remembered of a cell that the caller has asked for.
func (rc *readCache) asked(c model.Cell) (Remembered, error) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if cc := rc.cells[c]; cc != nil && !cc.prefetched {
		return Remember(cc.value), nil
	}
	return rc.digests.of(c)
}

// put keeps a cell, whose value the caller must not modify afterwards, if there is room. Prefetched
// cells take at most half of the room.
func (rc *readCache) put(c model.Cell, cc cachedCell) bool {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if rc.cells[c] != nil {
		return true // a snapshot cannot change
	}
	if cc.prefetched {
		return rc.keep(c, &cc, readCacheBytes/2)
	}
	return rc.remember(c, &cc)
}

// remember caches a cell that the caller has asked for, or a digest of it where there is no room;
// the caller holds rc.mu.
func (rc *readCache) remember(c model.Cell, cc *cachedCell) bool {
	kept := rc.keep(c, cc, readCacheBytes)
	if !kept {
		rc.digests.put(c, cc.value)
	}
	return kept
}

// keep caches a cell if there is room; the caller holds rc.mu.
func (rc *readCache) keep(c model.Cell, cc *cachedCell, room int) bool {
	if !rc.grow(len(c.Row)+len(c.Column)+len(cc.value)+64, room) {
		return false
	}
	if rc.cells == nil {
		rc.cells = map[model.Cell]*cachedCell{}
	}
	rc.cells[c] = cc
	return true
}

// close notes that the cache has every column of the row that has a value.
func (rc *readCache) close(row model.Cell) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if !rc.grow(len(row.Row)+64, readCacheBytes/2) {
		return
	}
	if rc.known == nil {
		rc.known = map[model.Cell]bool{}
	}
	rc.known[row] = true
}

// grow makes room for so many bytes, up to most in all; the caller holds rc.mu.
func (rc *readCache) grow(bytes, most int) bool {
	if rc.bytes+bytes > most {
		return false
	}
	rc.bytes += bytes
	return true
}
