package observers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator"
)

const (
	// unfinishedListed is how many cells a NotIdleError names, unfinishedShown in its text.
	unfinishedListed = 10
	unfinishedShown  = 3
)

// UnfinishedCell is a cell that still had work when WaitIdle gave up.
type UnfinishedCell struct {
	Cell percolator.Cell
	// Runs is how many runs of Observer for the cell, on this worker, have each caused the next, as
	// in a loop ([Registry.Observe]). 0: none.
	Observer string
	Runs     int
}

func (u UnfinishedCell) String() string {
	if u.Runs == 0 {
		return u.Cell.String()
	}
	return fmt.Sprintf("%v (observer %q has caused its own next run %d times in a row)", u.Cell, u.Observer, u.Runs)
}

// NotIdleError is what [WaitIdle] and [Worker.WaitIdle] return when the context ends: what was left
// when the tables were last checked. It wraps the context's error and Failed.
type NotIdleError struct {
	Left      Remaining
	CountedAt time.Time // when Left was counted; zero: never in full
	Failed    error     // of a later count; nil: none failed
	// Queued is how many cells the worker itself had in hand; 0 from WaitIdle without one.
	Queued int
	// Cells are some of those that are left or queued, at most ten: first those of which an observer
	// causes its own next run, again and again.
	Cells []UnfinishedCell

	cause error
}

func (e *NotIdleError) Error() string {
	text := "observers: not idle"
	if e.Queued > 0 {
		text += fmt.Sprintf(", %d cells are unfinished here", e.Queued)
	}
	switch {
	case e.Failed != nil:
		text += ", what is left cannot be read: " + e.Failed.Error()
	case !e.CountedAt.IsZero():
		text += ", " + e.Left.String()
		if e.Left.Notifications > 0 {
			text += " (does a worker run that takes their columns?)"
		}
	case e.Queued == 0:
		text += ", what is left could not be read in time"
	}
	return text + e.named() + ": " + e.cause.Error()
}

// named lists the first cells.
func (e *NotIdleError) named() string {
	if len(e.Cells) == 0 {
		return ""
	}
	shown := ordered.Map(e.Cells[:min(len(e.Cells), unfinishedShown)], UnfinishedCell.String)
	text := "; among them " + strings.Join(shown, ", ")
	if len(e.Cells) > unfinishedShown {
		text += " and others"
	}
	return text
}

// Unwrap returns the context's error, and Failed if it is set.
func (e *NotIdleError) Unwrap() []error {
	if e.Failed == nil {
		return []error{e.cause}
	}
	return []error{e.cause, e.Failed}
}

// notIdle is the error of Worker.WaitIdle, with what its queue holds.
func (w *Worker) notIdle(last NotIdleError, cause error) *NotIdleError {
	queued, running := w.queue.sizes()
	last.Queued, last.cause = queued+running, cause
	last.Cells = append(w.queue.unfinished(), last.Cells...)
	listed := map[percolator.Cell]bool{}
	last.Cells = slices.DeleteFunc(last.Cells, func(u UnfinishedCell) bool {
		before := listed[u.Cell]
		listed[u.Cell] = true
		return before
	})
	last.Cells = last.Cells[:min(len(last.Cells), unfinishedListed)]
	return &last
}
