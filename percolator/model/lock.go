package model

import (
	"time"

	"github.com/gopercolator/percolator/tso"
)

// Resolution is what became of a lock.
type Resolution int

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
