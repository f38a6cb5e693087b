package observers

import (
	"fmt"
	"time"
)

// maxSnooze is the longest time by which an observer can postpone a change.
const maxSnooze = time.Hour

// snooze is the error of an observer that postpones a change.
type snooze struct{ pause time.Duration }

func (s snooze) Error() string { return fmt.Sprintf("put off for %v", s.pause) }

// Snooze returns an error with which a [Func] postpones a change, for instance because what it
// needs is not there yet. The worker writes nothing of the transaction and calls the observer again
// after d, which it limits to between 0 and one hour. That is not a failure: it does not count as
// an attempt (Change.Attempt stays) and never parks the cell. WaitIdle waits for it. The error may
// be wrapped. From a [BatchFunc] it postpones all changes of the call.
//
// The worker keeps the time in memory, and each worker postpones for itself: another worker whose
// scan meets the notification, or this one after a restart, calls the observer at once. A further
// change of the cell joins the postponed one.
func Snooze(d time.Duration) error { return snooze{max(0, min(d, maxSnooze))} }
