package journal

// HoldsEntries reports whether a row of percolator_journal, by its key, holds a batch of entries:
// it is no header, and no cell for which observers are parked.
func HoldsEntries(key string) bool {
	_, seq, ok := parseKey(key)
	return ok && seq > 0
}
