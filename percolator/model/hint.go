package model

import "time"

// Question is what a worker asks other processes for.
type Question struct {
	Columns []Cell        // Row does not matter
	Worker  string        // that other workers pass notifications on to, of any columns; "": none
	Most    int           // hints, and parts of a surplus, 1 to 256
	Wait    time.Duration // for the first, at most 30 s
	Surplus bool          // it has time for what other workers hand over, too
}

// Heard is what other processes have told a worker.
type Heard struct {
	Notified []Notification // left as hints, or passed on
	Surplus  []Surplus
}

// Surplus is cells of one column that a worker hands over to another one, to run for them together.
type Surplus struct {
	Notified  []Notification // one or more, in row order
	HandOvers int            // how often workers have handed the cells over; at least 1
	From      uint64         // the worker that hands them over
}
