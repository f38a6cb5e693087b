package tso

import (
	"testing"
	"time"
)

// Where time is virtual, so is that of the boot-time clock.
func TestClockOfABubble(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newClock(nil)
		from := c.moment()
		time.Sleep(time.Hour)
		at := c.moment()
		for name, passed := range map[string]time.Duration{
			"monotonic": at.mono - from.mono, "boot time": at.boot - from.boot, "wall": at.wall.Sub(from.wall),
		} {
			if passed < time.Hour || passed > time.Hour+time.Minute {
				t.Errorf("%s: %v passed in an hour", name, passed)
			}
		}
	})
}
