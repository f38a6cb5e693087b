package percolatortest

import (
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// bubbleBegin is when time begins in a bubble. Those of testing/synctest begin in 2000, before the
// first timestamp.
var bubbleBegin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Bubble runs a test in a bubble of testing/synctest, with its rules. Time passes when everything
// waits, so that leases, drains and back-offs take none. The environment starts within; it has no
// [Listen] and no [Address]. While a bubble runs, the process's environment has no
// BIGTABLE_EMULATOR_HOST: Google's client would connect to it, and time stands still in a bubble
// that waits for a socket.
func Bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	hideEmulator()
	defer showEmulator()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(bubbleBegin))
		test(t)
	})
}

const emulatorHost = "BIGTABLE_EMULATOR_HOST"

// hidden is what the bubbles that run have taken out of the environment.
var hidden struct {
	sync.Mutex
	bubbles int
	address string
}

func hideEmulator() {
	hidden.Lock()
	defer hidden.Unlock()
	if hidden.bubbles++; hidden.bubbles == 1 {
		hidden.address = os.Getenv(emulatorHost)
		_ = os.Unsetenv(emulatorHost)
	}
}

func showEmulator() {
	hidden.Lock()
	defer hidden.Unlock()
	if hidden.bubbles--; hidden.bubbles == 0 && hidden.address != "" {
		_ = os.Setenv(emulatorHost, hidden.address)
	}
}
