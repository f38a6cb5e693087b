package model

import (
	"slices"

	"github.com/gopercolator/percolator/tso"
)

const (
	// MaxWorkers is how many live workers are listed. Each counts them before it stores its own
	// entry, so workers that start at the same time may exceed it. A worker without a place
	// searches everything.
	MaxWorkers = 256
	// MaxReports is how many clients and workers report, the last MaxWorkers of them only workers.
	// Each counts them before it stores its first report, so those that start at the same time may
	// exceed it.
	MaxReports = 1024 + MaxWorkers
)

// WorkerInfo is what a worker tells other workers and operators.
type WorkerInfo struct {
	Name      string        `json:"-"` // random, 1 to 64 bytes; it names the cell
	Session   string        // of its client with the oracle; "": none
	Started   tso.Timestamp // when it announced itself first
	Expires   tso.Timestamp // by the oracle's clock, unless it announces itself again
	Version   string        `json:",omitempty"` // of this module, as built
	Observers []string      `json:",omitempty"` // the names of its observers
	// Identifies its columns: workers with equal ones share a table.
	Columns string `json:",omitempty"`
	// Identifies its columns of which one worker runs all cells.
	Owns string `json:",omitempty"`

	// Takes are the columns that it takes, by table; nil if it does not tell. They are bytes
	// because JSON would damage names that are not text.
	Takes map[string][][]byte `json:",omitempty"`
}

// TakesColumn reports whether a worker takes a column. known is false if it does not tell.
func (w WorkerInfo) TakesColumn(table, column string) (takes, known bool) {
	return slices.ContainsFunc(w.Takes[table], func(name []byte) bool { return string(name) == column }), w.Takes != nil
}

// TableBounds are row keys that divide a table into parts with similar numbers of rows.
type TableBounds struct {
	Made tso.Timestamp // when a worker chose them
	Keys []string      // in order, without repetition
}

// Workers are the live workers and their bounds at one instant.
type Workers struct {
	Now    tso.Timestamp          // later than every timestamp in it
	Live   []WorkerInfo           // by name
	Bounds map[string]TableBounds // by table
}
