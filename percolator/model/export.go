package model

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
