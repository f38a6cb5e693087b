package model

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
