package exportqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/gopercolator/percolator/observers/internal/sliced"
	"github.com/gopercolator/percolator/percolator"
)

// The backlog of a partition is a slice from which on a run reads everything, notified or not. It
// stands beside the position; without it a run reads what is notified.
//
// While a receiver takes nothing, each new slice would fail like those before it and be parked by
// itself, another one every 4.1 s. Instead a run that fails, and is not that of the oldest slice
// with an entry, commits: it stores that slice as the backlog, and the worker erases the
// notification of its own. So the oldest slice is the only one that fails and is parked. A run that
// succeeds, be it of that slice or of a new one, moves the backlog to what it had no room for, or
// deletes it.
//
// I31: while a partition has a backlog, the slice that it names is notified, and every entry that
// waits is in a slice that is notified, or not below the backlog. A run that joins writes the
// backlog, and so does a run that ends in success while there is one, so they conflict. Where there
// was none, the run that joins locks the oldest entry, which every successful run deletes. Only an
// operator can take the notification away (observers.Drop): the next run that joins notifies the
// slice again, also before a worker has erased what was dropped.
//
// Rejected: snoozing the later slices, because an outage of a day leaves 21,000 of them in each
// partition, for which workers would run again and again.

// mostUnparked is how many parked slices one run has looked at again.
const mostUnparked = 1000

func (q *Queue) backlogCell(partition int) percolator.Cell {
	c := positionCell(q.cfg.Table, partition)
	c.Column = "backlog"
	return c
}

// join lets tx, a run for own whose delivery has failed, leave its slice to the run of the oldest
// one. It returns failed if own is that slice, or older than the backlog. A slice that has no entry
// and is older than all that have, and than the backlog, is done with.
func (q *Queue) join(ctx context.Context, client *percolator.Client, tx *percolator.Txn, own percolator.Cell, partition int, b *batch, failed error) error {
	first := b.cells[0].Row[:sliced.RowBytes]
	oldest := cmp.Or(b.backlog, first)
	switch {
	case own.Row < min(first, oldest):
		return nil
	case own.Row <= oldest:
		return failed
	}
	if b.backlog == "" {
		if _, err := tx.GetForUpdate(ctx, b.cells[0]); err != nil {
			return errors.Join(failed, err)
		}
	}
	to := percolator.Cell{Table: own.Table, Row: oldest, Column: own.Column}
	found, err := leads(ctx, client, to)
	if err == nil && !found {
		err = tx.Notify(to)
	}
	if err == nil {
		err = tx.Set(q.backlogCell(partition), []byte(oldest))
	}
	if err != nil {
		return errors.Join(failed, err)
	}
	return nil
}

// leads reports whether a slice carries a notification that an operator has not dropped. No other
// observer of the column could be done with it.
func leads(ctx context.Context, client *percolator.Client, slice percolator.Cell) (found bool, err error) {
	row, err := client.Engine().Reads.PendingOf(ctx, slice)
	for _, n := range row.Notified {
		found = found || n.Cell == slice
		for _, s := range row.States {
			found = found && !(s.Done && s.Cell == slice && s.Through >= n.Timestamp)
		}
	}
	return found, err
}

// stays returns percolator.ErrConflict, upon which the worker begins anew, if another run has moved
// the backlog since tx began. A slice that joined after the snapshot of tx and before its search is
// neither dirty nor behind a backlog that tx sees, and what tx delivers must not overtake it. The
// run that joined had committed before it erased the notification, so a snapshot that is taken
// after the search shows its backlog.
func (q *Queue) stays(ctx context.Context, client *percolator.Client, partition int, backlog string) error {
	s, err := client.Snapshot(ctx)
	if err != nil {
		return err
	}
	cell := q.backlogCell(partition)
	now, err := s.GetMulti(ctx, cell)
	if err == nil && string(now[0]) != backlog {
		err = fmt.Errorf("exportqueue: %s: %w: the backlog has moved", cell, percolator.ErrConflict)
	}
	return err
}

// passOn lets tx, a run for own that succeeded, notify what is left to do: what it had no room for,
// and slices that are parked although their entries are delivered, whose runs find that out.
func (q *Queue) passOn(tx *percolator.Txn, own percolator.Cell, partition int, b *batch) error {
	notify := func(slice string) error { // at the commit timestamp, so it outlives this run (I11)
		return tx.Notify(percolator.Cell{Table: own.Table, Row: slice, Column: own.Column})
	}
	for _, slice := range b.parked[:min(len(b.parked), mostUnparked)] {
		if slice != own.Row && (!b.more || slice < b.next) {
			if err := notify(slice); err != nil {
				return err
			}
		}
	}
	switch {
	case b.backlog == "" && b.more:
		return notify(own.Row)
	case b.backlog == "":
		return nil
	case b.more:
		return errors.Join(tx.Set(q.backlogCell(partition), []byte(b.next)), notify(b.next))
	default:
		return tx.Delete(q.backlogCell(partition))
	}
}
