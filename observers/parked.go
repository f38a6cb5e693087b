package observers

import (
	"slices"
	"strings"
	"time"

	"github.com/gopercolator/percolator/percolator"
)

// Parked is a cell for which an observer has failed too often. The notification remains in the table; this worker runs the
// observer again when the cell is notified anew, another worker (or this one after a restart) tries it on its own account.
type Parked struct {
	Cell     percolator.Cell
	Observer string
	Attempts int
	Err      error     // of the last attempt
	Since    time.Time // by this machine's clock
}

// Parked lists what is parked on this worker, in the order of the cells. It holds 10,000 cells at most.
func (w *Worker) Parked() []Parked {
	q := w.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	var list []Parked
	for e := range q.parked {
		for i := range e.tasks {
			if t := &e.tasks[i]; t.parked != nil {
				list = append(list, Parked{e.column.cell(e.row), e.column.lanes[i].name, t.attempts, t.parked.err, t.parked.since})
			}
		}
	}
	slices.SortFunc(list, func(a, b Parked) int {
		for _, c := range []int{
			strings.Compare(a.Cell.Table, b.Cell.Table), strings.Compare(a.Cell.Row, b.Cell.Row),
			strings.Compare(a.Cell.Column, b.Cell.Column), strings.Compare(a.Observer, b.Observer),
		} {
			if c != 0 {
				return c
			}
		}
		return 0
	})
	return list
}
