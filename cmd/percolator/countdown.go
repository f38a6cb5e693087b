package main

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

// countdown says how long a command has yet to wait for other processes. On a terminal it stands in
// the line that shows what goes on (waitingLine, showBar); elsewhere it writes a line when the wait
// begins, and one every ten seconds.
type countdown struct {
	until string
	log   io.Writer // nil: a terminal
	over  atomic.Pointer[time.Time]
	stop  func() // ends the lines of the wait under way; nil: there is none
}

func newCountdown(cmd *cobra.Command, until string) *countdown {
	c := &countdown{until: until}
	if stderr := cmd.ErrOrStderr(); terminal(stderr) == nil {
		c.log = stderr
	}
	return c
}

// begin begins a wait of d. It is the function that the library calls before it waits.
func (c *countdown) begin(d time.Duration) {
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

// wait waits for d, for a library that has its caller wait.
func (c *countdown) wait(ctx context.Context, d time.Duration) error {
	c.begin(d)
	defer c.end()
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// count writes what is left until the wait is over or quit is closed. A line that is true for less
// than five seconds is left out.
func (c *countdown) count(over time.Time, quit <-chan struct{}) {
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
func (c *countdown) text() string {
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
func (c *countdown) end() {
	if c == nil {
		return
	}
	c.over.Store(nil)
	if c.stop != nil {
		c.stop()
		c.stop = nil
	}
}
