package tso

import (
	"fmt"
	"time"
)

// answerTolerance is how far an answer may lie behind what its client expects, beyond maxAhead: the
// wall clocks of two servers may differ by as much, and the speed of the client's clock from theirs.
const answerTolerance = time.Second

// expected is what a client knows of the next answer. The clocks of a server do not always show
// that its machine was suspended, as where a hypervisor suspends it and leaves its wall clock
// alone. Then it may go on for the rest of a lease that it has lost, in the past. The clients with
// which it goes on can see that, because time has passed for them.
//
// So a client refuses an answer that lies more than maxAhead + answerTolerance behind the last one
// and the time since then, and asks all servers with the demand to confirm their leases by a write
// to the store (allocator.confirm). It believes a confirmed answer, however far behind: then the
// oracle's clock was set back while the client had nothing to ask.
type expected struct {
	last  Timestamp // the greatest timestamp received
	doubt bool      // an answer was refused

	// at is when last was received, by the boot-time clock of the client. unclocked: last was so far
	// ahead of its server's clock that the time since then says nothing.
	at        time.Duration
	unclocked bool
}

// check returns an error unless n timestamps from first on may follow, in the answer to a request
// that was sent at asked.
func (e *expected) check(first Timestamp, n int, ahead bool, asked time.Duration) error {
	if last := first + Timestamp(n) - 1; first <= e.last || last < first || last > MaxTimestamp {
		return fmt.Errorf("went back: it answered %d after %d", first, e.last)
	}
	if e.last == 0 || e.unclocked || ahead || e.doubt {
		return nil
	}
	if behind := e.last.Add(asked - e.at).Sub(first); behind > maxAhead+answerTolerance {
		e.doubt = true
		return fmt.Errorf("is behind: it answered %d, %v below what is due by now", first, behind)
	}
	return nil
}

// accept notes an answer that was received at a time.
func (e *expected) accept(first Timestamp, n int, ahead bool, at time.Duration) {
	*e = expected{last: first + Timestamp(n) - 1, at: at, unclocked: ahead}
}
