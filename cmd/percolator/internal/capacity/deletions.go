package capacity

// Deletions are what tells Bigtable that something is gone. Each is a mutation, and each is stored,
// and paid for, until it is compacted away with what it deletes.
type Deletions struct {
	Cells       float64 // versions of a cell, one or a range of them
	JournalRows float64 // each by a mutation of its own
}

// Deletions is what the transactions and runs of a second send, and the collector that erases from
// so many rows.
func (w Workload) Deletions(collected float64) Deletions {
	runs := w.Changes * w.Observers
	rows := w.Changes + runs*w.ObserverWrites
	locks := rows*w.Columns + runs
	notifications := w.Changes * min(w.Observers, 1)
	// Of a cell's older versions the records go in one range and the data in another, those of an
	// acknowledgment, which has no data, in one.
	ranges := 2 * w.Columns
	if rows > 0 {
		ranges += w.Observers * w.Changes / rows
	}
	return Deletions{Cells: locks + notifications + collected*ranges, JournalRows: w.Requests().JournalRows}
}

// bytes is how much says so: of a cell its key and two timestamps, of a row of the journal its key.
func (d Deletions) bytes(w Workload) float64 {
	return d.Cells*(w.KeyBytes+2*timestampBytes) + d.JournalRows*aroundEntry
}
