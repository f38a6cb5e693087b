package settle

import (
	"slices"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Item is an entry that is to be looked at, and what the caller knows of it.
type Item struct {
	model.JournalEntry
	Session string // of its owner; "": unknown
	Owner   OwnerState
	Read    time.Time // when the caller first read it, by the monotonic clock

	// CommitTS is when the transaction committed, as its own client knows; 0: its primary says.
	CommitTS tso.Timestamp
	// InPhaseTwo: phase two of this client is in flight, and may write notifications. It is false
	// where CommitTS is 0.
	InPhaseTwo bool
}

// OwnerState is what the caller knows of the client whose entry it is.
type OwnerState uint8

const (
	// OwnerUnknown: the owner may be dead. A transaction that has left nothing on its primary is
	// rolled back once its TTL or its session has ended (I8).
	OwnerUnknown OwnerState = iota
	// OwnerElsewhere: another process, which lives. Its transaction may still prewrite, whatever
	// its age; and it dispatches what it finds itself.
	OwnerElsewhere
	// OwnerHere: this client, which lives. Its transaction may still prewrite.
	OwnerHere
)

// Result is what a look found of an item.
type Result struct {
	Settled  bool
	Unlocked bool // its transaction is decided, and no lock of it is left; so it is where Settled is
	Progress bool // it has resolved locks
	Backlog       // what is unprocessed; nothing, if it is settled
}

// check is a look at one item.
type check struct {
	*Item
	state  checkState
	bound  tso.Timestamp // notifications of it are at or below; 0: none, or it is undecided
	result Result        // Settled is set last
}

// checkState is how far a look has come with an item. It begins undecided, becomes bare or early,
// and then stays with the first thing that is found to be left.
type checkState uint8

const (
	// undecided: its transaction may still commit, or nothing could be read of it. Its rows are not
	// read.
	undecided checkState = iota
	// bare: its transaction is decided, and nothing of it was found so far. At the end of a look:
	// it is settled.
	bare
	// early: decided, but requests of it may be in flight. That nothing is found proves nothing.
	early
	// fenced: a row is in a table into which an import is unfinished, and is left to it.
	fenced
	// unread: a row could not be read, or a lock in it not be decoded.
	unread
	// locked: a row held a lock that it leads to.
	locked
	// notified: a row holds a notification of it.
	notified
)

func newChecks(items []Item) []*check {
	checks := make([]*check, len(items))
	for i := range items {
		checks[i] = &check{Item: &items[i]}
	}
	return checks
}

// decided notes that the transaction is decided, and that its notifications are at or below bound
// (0: it has none); quiet: it writes no more of them.
func (c *check) decided(bound tso.Timestamp, quiet bool) {
	c.state, c.bound = bare, bound
	if !quiet {
		c.state = early
	}
}

// leadsTo reports whether a lock in one of its rows keeps the entry: a lock of its transaction. An
// entry without one (J2) may be all that leads to the older locks of rows that it notifies weakly,
// as that of a sweep.
func (c *check) leadsTo(l model.Lock, weak bool) bool {
	if c.Primary == (model.Cell{}) {
		return weak && l.StartTS < c.StartTS
	}
	return l.StartTS == c.StartTS
}

// leave notes why the entry of a decided transaction is not settled.
func (c *check) leave(why checkState) {
	if c.state == bare {
		c.state = why
	}
}

// notifiesWeakly reports whether the transaction may have notified before it committed.
func (c *check) notifiesWeakly() bool {
	return slices.ContainsFunc(c.Rows, func(r model.JournalName) bool { return r.Weak })
}

// highest is up to which timestamp any of the transactions may have notified.
func highest(checks []*check) (ts tso.Timestamp) {
	for _, c := range checks {
		ts = max(ts, c.bound)
	}
	return ts
}
