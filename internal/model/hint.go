package model

import "time"

// Question is what a worker asks other processes for.
type Question struct {
	Columns []Cell        // Row does not matter
	Worker  string        // that other workers pass notifications on to, of any columns; "": none
	Most    int           // notifications, 1 to 256
	Wait    time.Duration // for the first, at most 30 s
	Surplus bool          // it has time for what other workers hand over, too
}

// Heard is a notification that another process has left or handed over.
type Heard struct {
	Notification
	HandOvers int    // how often workers have handed it over; 0: a hint
	From      uint64 // the worker that hands it over
}
