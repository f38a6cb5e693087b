package observers

import (
	"fmt"
	"time"
)

// maxSnooze is the longest time for which an observer can put a change off.
const maxSnooze = time.Hour

// snooze is the error of an observer that puts a change off.
type snooze struct{ pause time.Duration }

func (s snooze) Error() string { return fmt.Sprintf("put off for %v", s.pause) }

// Snooze returns an error by which a [Func] puts a change off, for instance because what it needs
// is not there yet: nothing of its transaction is written, and it is called again after d, at most
// an hour (a longer d counts as an hour, a negative one as none). That is no failure: it does not
// count as an attempt (Change.Attempt stays) and never parks the cell. WaitIdle waits for it. The
// error may be wrapped.
//
// The worker keeps the time in its memory. Another worker whose scan meets the notification
// meanwhile, or this one after a restart, calls the observer at once: a change is put off by each
// worker for itself. A further change of the cell joins the one that was put off.
func Snooze(d time.Duration) error { return snooze{max(0, min(d, maxSnooze))} }
