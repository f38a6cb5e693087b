package model

import (
	"time"

	"github.com/gopercolator/percolator/tso"
)

// Lock is a lock as it stands in the store, for tools and observers.
type Lock struct {
	Cell     Cell
	Primary  Cell // the cell that decides its transaction's status
	StartTS  tso.Timestamp
	Placed   tso.Timestamp // oracle time when it was placed or refreshed
	TTL      time.Duration // it may be judged dead after Placed + TTL
	Session  string        // the lease of its client; "" for none
	Observed bool          // its commit notifies observers
	Kind     string        // "put", "delete" or "lock"
}

// AliveUntil is when the lock's time is up: it is dead after that, and sooner if the session of its
// owner ends.
func (l Lock) AliveUntil() tso.Timestamp { return l.Placed.Add(l.TTL) }

// Overdue is for how long the lock's time has been up at now: above 0 it is dead. Below, it has
// time left, and only its session can show that it is dead.
func (l Lock) Overdue(now tso.Timestamp) time.Duration { return now.Sub(l.AliveUntil()) }

// Resolution is what became of a lock.
type Resolution int

// What becomes of a lock.
const (
	LockAlive         Resolution = iota // its transaction is alive and open: come back later
	LockRolledForward                   // the transaction had committed; the cell now shows it
	LockRolledBack                      // the transaction can no longer commit; the lock is erased
	LockGone                            // another client had resolved the lock
)

// String names the resolution for messages.
func (r Resolution) String() string {
	return [...]string{"alive", "rolled forward", "rolled back", "gone"}[r]
}
