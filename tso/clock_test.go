package tso

import (
	"testing"
	"time"
)

// Where time is virtual, so is that of the boot-time clock. A reading of it lies within its call,
// which takes real time, so two readings may also be apart by less than what has passed.
func TestClockOfABubble(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newClock(nil)
		from := c.moment()
		time.Sleep(time.Hour)
		at := c.moment()
		for name, passed := range map[string]time.Duration{
			"monotonic": at.mono - from.mono, "boot time": at.boot - from.boot, "wall": at.wall.Sub(from.wall),
		} {
			if slack := passed - time.Hour; slack.Abs() > time.Minute || name != "boot time" && slack < 0 {
				t.Errorf("%s: %v passed in an hour", name, passed)
			}
		}
	})
}
