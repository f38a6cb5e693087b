package cli

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
)

// countdownEvery is the pause between two lines of a countdown that no terminal shows.
const countdownEvery = 10 * time.Second

// Countdown says how long a command has yet to wait for other processes. On a terminal it stands in
// the line that shows what goes on (WaitingLine, ShowBar); elsewhere it writes a line when the wait
// begins, and one every ten seconds.
type Countdown struct {
	until string
	log   io.Writer // nil: a terminal
	over  atomic.Pointer[time.Time]
	stop  func() // ends the lines of the current wait; nil: there is none
}

// NewCountdown is a countdown that says what the command waits for.
func NewCountdown(cmd *cobra.Command, until string) *Countdown {
	c := &Countdown{until: until}
	if stderr := cmd.ErrOrStderr(); Terminal(stderr) == nil {
		c.log = stderr
	}
	return c
}

// Begin begins a wait of d. It is the function that the library calls before it waits.
func (c *Countdown) Begin(d time.Duration) {
	c.end()
	over := time.Now().Add(d)
	c.over.Store(&over)
	if c.log == nil {
		return
	}
	_, _ = fmt.Fprintf(c.log, "waiting %v until %s\n", d.Round(time.Second), c.until)
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		c.count(over, quit)
	}()
	c.stop = func() { close(quit); <-ended }
}

// Wait waits for d, for a library that has its caller wait.
func (c *Countdown) Wait(ctx context.Context, d time.Duration) error {
	c.Begin(d)
	defer c.end()
	return Sleep(ctx, d)
}

// Sleep waits for d, or returns the context's error as soon as it ends.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// count writes what is left until the wait has ended or quit is closed. A line that is true for
// less than five seconds is left out.
func (c *Countdown) count(over time.Time, quit <-chan struct{}) {
	tick := time.NewTicker(countdownEvery)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		left := time.Until(over)
		if left < countdownEvery/2 {
			return
		}
		_, _ = fmt.Fprintf(c.log, "waiting: %v left\n", left.Round(time.Second))
	}
}

// text is what a terminal shows; "" while the command does not wait.
func (c *Countdown) text() string {
	if c == nil {
		return ""
	}
	over := c.over.Load()
	if over == nil {
		return ""
	}
	left := time.Until(*over)
	if left <= 0 {
		return ""
	}
	return fmt.Sprintf("waiting until %s: %v left", c.until, (left + time.Second - 1).Truncate(time.Second))
}

// end ends the wait, also before its time.
func (c *Countdown) end() {
	if c == nil {
		return
	}
	c.over.Store(nil)
	if c.stop != nil {
		c.stop()
		c.stop = nil
	}
}
