package reads

import (
	"sync"
	"time"
)

// HoldSlot gives back a slot once: when its holder calls leave, or after timeout. So a request for
// a row that has no tablet server does not keep others from theirs. leave reports whether the slot
// was still held.
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
