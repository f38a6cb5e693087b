package journal

import "github.com/gopercolator/percolator/internal/model"

// HoldsEntries reports whether a row of percolator_journal, by its key, holds a batch of entries:
// it is no header, and no cell for which observers are parked.
func HoldsEntries(key string) bool {
	_, seq, ok := parseKey(key)
	return ok && seq > 0
}

// NoHeaders is all rows but headers: entries, and what is parked.
func NoHeaders() model.Range { return model.Between("", string([]byte{headerShard})) }
