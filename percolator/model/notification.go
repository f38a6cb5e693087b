package model

import (
	"github.com/gopercolator/percolator/tso"
)

// Notification is a dirty cell: the cell changed, or was notified weakly, at the timestamp.
type Notification struct {
	Cell      Cell
	Timestamp tso.Timestamp
}
