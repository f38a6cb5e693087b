package dispatch

import (
	"time"

	"github.com/gopercolator/percolator/percolator/model"
)

// Question is what a worker asks other processes for.
type Question struct {
	Columns   []model.Cell  // Row does not matter
	Worker    string        // that other workers pass notifications on to, of any columns; "": none
	Most      int           // hints and hand-overs, 1 to 256
	Wait      time.Duration // for the first, at most 30 s
	HandOvers bool          // it has time for what other workers hand over, too
}

// Heard is what other processes have told a worker.
type Heard struct {
	Notified   []model.Notification // left as hints, or passed on
	HandedOver []HandOver
}

// HandOver is cells of one column that a worker hands over to another one, to run for them
// together.
type HandOver struct {
	Notified []model.Notification // one or more, in row order
	Times    int                  // how often workers have handed the cells over; at least 1
	From     uint64               // the worker that hands them over
}
