package model

import "github.com/gopercolator/percolator/tso"

// JournalEntry names a transaction and the rows that it writes or notifies.
type JournalEntry struct {
	StartTS tso.Timestamp // of the transaction; without a primary, a timestamp of its own (J2)
	Primary Cell          // zero: nothing is decided, the rows are only notified (J2)
	Rows    []JournalName
}

// JournalName is a row that a transaction writes or notifies.
type JournalName struct {
	Table, Key string
	Observed   bool // an observed column of it is written
	Weak       bool // a weak column of it is notified
}
