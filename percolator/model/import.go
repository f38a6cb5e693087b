package model

import (
	"time"
)

// ImportRow is a row of a source.
type ImportRow struct {
	Row   string
	Cells []ImportCell
}

// ImportCell is one value of a row.
type ImportCell struct {
	Column string
	Value  []byte
}

// ImportSum tells two sets of cells apart, in whatever order they are counted.
type ImportSum struct {
	Cells int64  `json:"cells"`
	Bytes int64  `json:"bytes"` // of values
	Hash  uint64 `json:"hash"`  // the sum of a 64-bit hash of each cell, its row, column and value
}

// Add adds what another sum has counted.
func (s *ImportSum) Add(o ImportSum) {
	s.Cells, s.Bytes, s.Hash = s.Cells+o.Cells, s.Bytes+o.Bytes, s.Hash+o.Hash
}

// ImportSums are sums of cells by how long their values live; 0: until they are deleted. What has
// expired may have been collected before its import ends, and the rest has to be there.
type ImportSums map[time.Duration]ImportSum

// Add adds what other sums have counted.
func (s ImportSums) Add(o ImportSums) {
	for ttl, sum := range o {
		both := s[ttl]
		both.Add(sum)
		s[ttl] = both
	}
}

// Total is the sum of all cells.
func (s ImportSums) Total() (total ImportSum) {
	for _, sum := range s {
		total.Add(sum)
	}
	return total
}

// ImportFinding is a row of the table that keeps an import from ending.
type ImportFinding struct {
	Index string // a unique one, of which two rows have the same value
	Row   string
	Other string // the row that has the entry
}

// ImportReport is what Verify has found.
type ImportReport struct {
	ImportSum                 // of the table
	Rows      int64           // of the table
	Entries   int64           // of its indexes
	Findings  []ImportFinding // the first 100 rows that share a value of a unique index
}

// ExportedRow is a row of an export, with its cells in the order of their columns.
type ExportedRow struct {
	Row   string
	Cells []ExportedCell
}

// ExportedCell is one cell of an export.
type ExportedCell struct {
	Column string
	Kind   ExportKind
	Value  []byte // of ExportedPut; the caller's own

	// Workers must look at it; so for ExportedDelete and ExportedWeak.
	Notified     bool
	Acknowledged []string        // observers whose last run saw this change, in order
	Parked       []ObserverState // observers that are parked for this change
}

// ExportKind says what an exported cell is.
type ExportKind uint8

// The kinds of exported cells.
const (
	ExportedPut    ExportKind = iota + 1 // a value
	ExportedDelete                       // a deletion that some observer may not have seen
	ExportedWeak                         // a weak notification
)
