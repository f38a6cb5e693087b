package history

import "time"

// Rules is what Check has to know of the application.
type Rules struct {
	// List says that the values of a cell are lists: elements with a blank after each, to which
	// transactions append.
	List func(Cell) bool
	// Unique are the columns no two rows of which may hold one value at a time.
	Unique []Column
	// Observers are those whose runs the history records. After the last transaction each has run
	// for the newest change of each cell.
	Observers []Observer
	// TTL is how long the values of a cell are seen after their commit. 0, or nil: until the next
	// one.
	TTL func(Cell) time.Duration
	// MaxAge is how old a transaction may be that commits something, by the timestamps of the
	// oracle. 0: any age.
	MaxAge time.Duration
	// Unrecorded are tables, those of indexes among them, to which transactions write that the
	// history does not hold.
	Unrecorded []string
}

// Column names a column of a table.
type Column struct{ Table, Name string }

// Observer names the observer of a column.
type Observer struct {
	Name, Table, Column string
	Weak                bool
	Expired             bool // at rest, all expired values are deleted for the observer
}
