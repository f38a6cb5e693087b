package observers

import (
	"context"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/engine/settle"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// Remaining counts unfinished work in the tables.
type Remaining struct {
	Notifications int64 // of observed and weak columns, except those that wait for parked observers alone
	Locks         int64 // on observed cells, which may hide a missing notification
}

// String describes r for people.
func (r Remaining) String() string {
	return fmt.Sprintf("left: notifications %d, locks on observed cells %d", r.Notifications, r.Locks)
}

// Remains counts unfinished work in all observed tables of the client's schema. It reads their
// notifications and locks, with one request for each 1,024 rows that have any, and changes nothing.
// Errors are the store's and the context's.
func Remains(ctx context.Context, c *percolator.Client) (Remaining, error) {
	left, _, err := remaining(ctx, c)
	return left.Remaining, err
}

// tally is Remaining as one look counts it.
type tally struct {
	Remaining
	here  int64            // notifications of them that this worker has taken into its queue
	cells []UnfinishedCell // some of those with notifications
}

func (t *tally) none() bool { return t.Remaining == Remaining{} }

// forOthers reports whether anything is left that is not in this worker's queue.
func (t *tally) forOthers() bool { return t.Notifications > t.here || t.Locks > 0 }

// add counts a notification.
func (t *tally) add(c percolator.Cell) {
	t.Notifications++
	if len(t.cells) < unfinishedListed {
		t.cells = append(t.cells, UnfinishedCell{Cell: c})
	}
}

func (t *tally) notIdle() NotIdleError {
	return NotIdleError{Left: t.Remaining, CountedAt: time.Now(), Cells: t.cells}
}

func remaining(ctx context.Context, c *percolator.Client) (left tally, s *settle.Survey, err error) {
	cov, err := cover(c.Schema(), nil, []Column{})
	if err != nil {
		return left, nil, err
	}
	if c.Engine().Meta.ByJournal() {
		s, err = c.Engine().Looker.Survey(ctx, func(row model.Pending) { left.addRow(cov, row) })
		if err != nil {
			return left, nil, fmt.Errorf("observers: what is left: %w", err)
		}
		return left, s, nil
	}
	for _, table := range cov.tables {
		for row, err := range c.Engine().Reads.ScanPending(store.InBackground(ctx), table, percolator.All()) {
			if err != nil {
				return left, nil, fmt.Errorf("observers: what is left of table %q: %w", table, err)
			}
			left.addRow(cov, row)
		}
	}
	return left, nil, nil
}

// addRow counts what is unfinished in a row.
func (t *tally) addRow(cov *coverage, row model.Pending) {
	for _, n := range row.Notified {
		if cov.observed[Column{row.Table, n.Cell.Column}] && !row.OnlyParked(n) {
			t.add(n.Cell)
		}
	}
	for _, l := range row.Locks {
		if l.Observed {
			t.Locks++
		}
	}
}
