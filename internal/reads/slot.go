package reads

import (
	"sync"
	"time"
)

// HoldSlot gives back a place among a limited number of them once: when leave is called, or after
// patience, so that what waits for a row that has no server does not keep others from theirs. leave
// reports whether the place was still held.
func HoldSlot(timeout time.Duration, giveBack func()) (leave func() bool) {
	var once sync.Once
	slow := time.AfterFunc(timeout, func() { once.Do(giveBack) })
	return func() (held bool) {
		slow.Stop()
		once.Do(func() {
			held = true
			giveBack()
		})
		return held
	}
}
