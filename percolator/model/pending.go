package model

import (
	"slices"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// Notification is a dirty cell: the cell changed, or was notified weakly, at the timestamp.
type Notification struct {
	Cell      Cell
	Timestamp tso.Timestamp
}

// Pending is a row in which the scan for work found something.
type Pending struct {
	Table, Row string
	Notified   []Notification  // the newest notify cell of each column, by column
	States     []ObserverState // parked observers and those done beside one, by column
	Locks      []Lock          // every lock in the row that can be decoded, by column
	Corrupt    []Cell          // cells of the two families that cannot be decoded
}

// Parked returns the observers that are parked for n, a notification in the row.
func (p Pending) Parked(n Notification) (list []ObserverState) {
	for _, s := range p.States {
		if s.Cell == n.Cell && !s.Done && s.Through >= n.Timestamp && !p.done(n, s.Observer) {
			list = append(list, s)
		}
	}
	return list
}

// OnlyParked reports whether nothing is to be done for n until an operator retries or drops a
// parked observer: some observer of the column is parked, and all others are parked or done. It
// goes by the row alone, which may not say yet that another observer is done.
func (p Pending) OnlyParked(n Notification) bool {
	parked := p.Parked(n)
	for _, s := range parked {
		for _, name := range s.Observers {
			if !p.done(n, name) && !slices.ContainsFunc(parked, func(o ObserverState) bool { return o.Observer == name }) {
				return false
			}
		}
	}
	return len(parked) > 0
}

// Notifies reports whether the row may hold a notification of c at or below ts. Of each column the
// newest most were read; if there are as many, others may be there.
func (p Pending) Notifies(c Cell, ts tso.Timestamp, most int) bool {
	n := 0
	for _, it := range p.Notified {
		if it.Cell != c {
			continue
		}
		if n++; it.Timestamp <= ts || n == most {
			return true
		}
	}
	return false
}

func (p Pending) done(n Notification, observer string) bool {
	return slices.ContainsFunc(p.States, func(s ObserverState) bool {
		return s.Cell == n.Cell && s.Done && s.Observer == observer && s.Through >= n.Timestamp
	})
}

// MaxParkedReason is how many bytes of an error's text a parked cell keeps. What is beyond it is
// cut off.
const MaxParkedReason = 1024

// ObserverState says that an observer need not run for the notifications of a cell up to Through.
type ObserverState struct {
	Cell     Cell
	Observer string
	Through  tso.Timestamp
	Done     bool // nothing is left to do, the notification waits for others; false: parked

	// Of a parked observer:
	Attempts  int
	Reason    string    // the last error, at most MaxParkedReason bytes; longer ones are cut
	Since     time.Time // by the clock of the worker that gave up
	Observers []string  // all observers of the column, as that worker knows them
}
