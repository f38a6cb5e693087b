package model

import "github.com/gopercolator/percolator/tso"

// StoredSchema is the schema of an instance, and how far its indexes can be trusted. The zero value
// stands for an instance without a schema.
type StoredSchema struct {
	Schema  *Schema // in a fixed order, without Splits; nil: none is stored
	Version uint64  // grows with each change, and when an index becomes ready
	// Indexes tells how far each index of the schema can be trusted. The key is the index's
	// Bigtable table, TABLE.INDEX.
	Indexes map[string]IndexState
	// Journal tells how far the journal can be trusted, if the schema does not disable it.
	Journal JournalState
	// Dropping lists the tables of Bigtable whose drop is unfinished.
	Dropping []string
}

// IndexState tells how far an index can be trusted. The zero value stands for one that was created
// with its table and has always been complete.
type IndexState struct {
	// Incomplete: ScanIndex refuses it until BackfillIndex ends.
	Building bool          `json:",omitempty"`
	Since    tso.Timestamp `json:",omitempty"` // ScanIndex refuses snapshots below it
}

// Complete reports whether every cell of a snapshot at ts has its entry.
func (st IndexState) Complete(ts tso.Timestamp) bool { return !st.Building && ts >= st.Since }

// JournalState tells how far the journal can be trusted. The zero value stands for one that was
// created with the instance and has always been complete.
type JournalState struct {
	// Names the current building, during which passes find what was written before it.
	Building string `json:",omitempty"`
	// Older work was announced below it, so from this safepoint on collection goes by the journal.
	Since tso.Timestamp `json:",omitempty"`
}
