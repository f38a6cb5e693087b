package cli

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// Where no terminal is, a countdown is a line at first and one every ten seconds. A wait that ends
// before its time, and one that another follows, say nothing afterwards.
func TestCountdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := &Countdown{until: "all know", log: &log}
		c.Begin(80*time.Second + 200*time.Millisecond)
		time.Sleep(30 * time.Second)
		if got := c.text(); got != "waiting until all know: 51s left" {
			t.Errorf("a terminal shows %q", got)
		}
		time.Sleep(time.Minute)
		if got := c.text(); got != "" {
			t.Errorf("after the wait a terminal shows %q", got)
		}
		c.Begin(11 * time.Second)
		time.Sleep(5 * time.Second)
		c.Begin(time.Minute)
		time.Sleep(15 * time.Second)
		c.end()
		time.Sleep(time.Minute)
		c.end()
		const want = `waiting 1m20s until all know
waiting: 1m10s left
waiting: 1m0s left
waiting: 50s left
waiting: 40s left
waiting: 30s left
waiting: 20s left
waiting: 10s left
waiting 11s until all know
waiting 1m0s until all know
waiting: 50s left
`
		if log.String() != want {
			t.Errorf("printed\n%s\nwant\n%s", log.String(), want)
		}
	})
	var none *Countdown
	if none.end(); none.text() != "" {
		t.Error("a command that does not wait counts down")
	}
}
