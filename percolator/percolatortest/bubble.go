package percolatortest

import (
	"testing"
	"testing/synctest"
	"time"
)

// bubbleBegin is when time begins in a bubble. Those of testing/synctest begin in 2000, before the
// first timestamp.
var bubbleBegin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Bubble runs a test in a bubble of testing/synctest, with its rules. Time passes when everything
// waits, so that leases, drains and back-offs take none. The environment starts within; it has no
// [Listen] and no [Address].
func Bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(bubbleBegin))
		test(t)
	})
}
