package commit

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// When an observer keeps failing on a cell, a worker parks it: workers leave it alone until the
// cell changes again, or an operator has looked. That must outlive the worker that gave up, so the
// row itself stores it, where the scan that finds the notification finds it in the same request:
//
//	family  column                      timestamp   value
//	notify  0x00 park 0x00 O 0x00 c     through     O is parked for notifications of c up to through
//	notify  0x00 done 0x00 O 0x00 c     through     O has nothing left to do for them
//
// The notification stays, so nothing is lost, whenever a worker dies: without the observer state a
// worker tries O again; with it, the notification is still there for a retry. An observer state
// only holds against notifications up to its timestamp, so a newer change is a new chance. The scan
// erases a state whose column has no notification at all (docs/internals/PROTOCOL.md, I19).
//
// A done state is needed only beside a parked observer, whose notification stays although O has
// nothing left to do for it, and after O's change was dropped. It has a column of its own, so that
// a late request which parks O does not undo it.
//
// With a journal, what is parked is listed there first (package journal), and no longer than the
// row says so: nothing that is parked is missing from the list.
//
// Rejected: moving the notification away, so that scans need not read past it. Erasing it is safe
// only if the observer state is known to be there still, which takes a conditional request; and the
// collector would have to learn that an observer without a notification waits for a deletion.

// SetObserverStates stores observer states, all of one cell, in one request: all or none. Of the
// states of one observer the latest counts. ErrSchemaMismatch: the column can neither be observed
// nor notified.
func (c *Committer) SetObserverStates(ctx context.Context, states ...model.ObserverState) error {
	if len(states) == 0 {
		return nil
	}
	cell := states[0].Cell
	mut := store.NewMutation(2)
	for _, s := range states {
		if s.Cell != cell || s.Observer == "" || strings.Contains(s.Observer, "\x00") {
			return catalog.CellError(model.ErrInvalidArgument, cell, "states of several cells, or an observer's name that is empty or contains the byte 0x00")
		}
		mut.Put(layout.NotifyFamily, layout.StateColumn(s), s.Through, layout.EncodeObserverState(s))
	}
	deadline := c.lifetime()
	if err := c.enlist(ctx, deadline, states...); err != nil {
		return err
	}
	return c.changeStates(ctx, cell, mut, deadline)
}

// enlist has the journal list states, all of one cell, as parked, before their row says so.
func (c *Committer) enlist(ctx context.Context, deadline time.Time, states ...model.ObserverState) error {
	if _, err := c.Meta.CheckRepairing(ctx); err != nil { // and know whether there is a journal
		return err
	}
	row, mut := journal.Parked(states...)
	if !c.Meta.Journaled() || mut.Empty() {
		return nil
	}
	return c.Bulk.Do(ctx, []store.RowMutation{{Table: model.JournalTable, Row: row, Mut: mut, Deadline: deadline}})
}

// unlist erases from the journal that an observer is parked, up to s.Through, once its row does not
// say so any more.
func (c *Committer) unlist(ctx context.Context, s model.ObserverState) error {
	until, err := c.Meta.CheckRepairing(ctx)
	if err != nil || !c.Meta.Journaled() {
		return err
	}
	row, mut := journal.Unparked(s)
	return c.Bulk.Do(ctx, []store.RowMutation{{Table: model.JournalTable, Row: row, Mut: mut, Deadline: until}})
}

// RetryParked makes a parked observer run again: it erases the observer state, and the notification
// is still there. It does not affect other observers of the cell. A request of the worker that
// parked the observer may be late by the request lifetime (I14) and park it once more: the journal
// goes on listing it until the run that follows has ended.
func (c *Committer) RetryParked(ctx context.Context, s model.ObserverState) error {
	s.Done = false
	a, err := c.Announce(ctx, WeakRows([]model.Cell{s.Cell}))
	if err != nil {
		return err
	}
	if err := c.changeStates(ctx, s.Cell, clearState(s), a.Deadline); err != nil {
		return err
	}
	c.Done(a, s.Cell)
	c.Dispatch.Notified(model.Notification{Cell: s.Cell, Timestamp: s.Through})
	return nil
}

// DropParked gives up on the change for which an observer is parked, as if the observer had run and
// written nothing. On an observed column it commits the acknowledgment first, so that an
// interrupted drop can be repeated. ErrConflict: the cell has changed since, so workers try the
// observer again by themselves.
func (c *Committer) DropParked(ctx context.Context, s model.ObserverState) error {
	info, err := c.checkObserved(ctx, s.Cell)
	if err != nil {
		return err
	}
	done := model.ObserverState{Cell: s.Cell, Observer: s.Observer, Through: s.Through, Done: true}
	s.Done = false
	mut := clearState(s)
	mut.Put(layout.NotifyFamily, layout.StateColumn(done), done.Through, layout.EncodeObserverState(done))
	if !info.IsObserved[s.Cell.Column] {
		return c.drop(ctx, s, mut)
	}
	var changed tso.Timestamp
	_, err = c.Update(ctx, func(ctx context.Context, tx *Txn) error {
		ack, err := tx.Acknowledge(ctx, s.Cell, s.Observer, []string{s.Observer})
		if err != nil {
			return err
		}
		if changed = ack.CommitTS; changed > s.Through {
			return errChangedSince
		}
		tx.keepNotification(s.Cell) // another observer may need it; a worker finds out
		return nil
	}, TxnOptions{})
	switch {
	case errors.Is(err, errChangedSince):
		return catalog.CellError(model.ErrConflict, s.Cell, "it changed at %d, after observer %q was parked at %d; workers try it again", changed, s.Observer, s.Through)
	case err != nil:
		return err
	}
	return c.drop(ctx, s, mut)
}

// drop gives up on what an observer is parked for. With the state that mut leaves nothing parks it
// again.
func (c *Committer) drop(ctx context.Context, s model.ObserverState, mut *store.Mutation) error {
	if err := c.clearAnnounced(ctx, s, mut); err != nil {
		return err
	}
	return c.unlist(ctx, s)
}

// clearAnnounced erases the sign that an observer is parked: others of the cell may then have work,
// or its notification may have no observer, and only the journal leads there (J2).
func (c *Committer) clearAnnounced(ctx context.Context, s model.ObserverState, mut *store.Mutation) error {
	a, err := c.Announce(ctx, WeakRows([]model.Cell{s.Cell}))
	if err == nil {
		err = c.changeStates(ctx, s.Cell, mut, a.Deadline)
	}
	if err != nil {
		return err
	}
	c.Done(a, s.Cell)
	return nil
}

// errChangedSince ends the transaction of a drop. It is not ErrConflict, which would have it
// repeated.
var errChangedSince = errors.New("the cell has changed since it was parked")

// ForgetObserverStates erases observer states without a notification (I19), in the background. The
// journal need not list them any longer than the row holds them: beside no notification nothing is
// parked.
func (c *Committer) ForgetObserverStates(ctx context.Context, states ...model.ObserverState) error {
	if err := retry.CheckContext(ctx); err != nil {
		return err
	}
	until, err := c.Meta.CheckRepairing(ctx)
	if err != nil {
		return err // a repair notifies anew
	}
	offer := c.Bulk.Offer(ctx)
	for _, s := range states {
		if _, err := c.checkObserved(ctx, s.Cell); err != nil {
			return err
		}
		offer.Add(store.RowMutation{Table: s.Cell.Table, Row: s.Cell.Row, Mut: clearState(s), Deadline: until, Done: func(error) {}})
		if c.Meta.Journaled() && !s.Done {
			row, mut := journal.Unparked(s)
			offer.Add(store.RowMutation{Table: model.JournalTable, Row: row, Mut: mut, Deadline: until, Done: func(error) {}})
		}
	}
	return nil
}

// checkObserved refuses a cell that can have no observer.
func (c *Committer) checkObserved(ctx context.Context, cell model.Cell) (*catalog.TableInfo, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return nil, err
	}
	info, ok := c.Meta.Catalog.Load().UserTable(cell.Table)
	switch {
	case !ok:
		return nil, c.Meta.Catalog.Load().UnknownTable(cell.Table)
	case !info.IsObserved[cell.Column] && !info.IsWeak[cell.Column]:
		return nil, catalog.CellError(model.ErrSchemaMismatch, cell, "the column is neither observed nor weak in the schema")
	}
	return info, ctx.Err()
}

// changeStates applies a mutation and waits for its answer. The deadline was fixed before.
func (c *Committer) changeStates(ctx context.Context, cell model.Cell, mut *store.Mutation, deadline time.Time) error {
	if _, err := c.checkObserved(ctx, cell); err != nil {
		return err
	}
	if _, err := c.Meta.CheckRepairing(ctx); err != nil {
		return err
	}
	return c.Bulk.Do(ctx, []store.RowMutation{{Table: cell.Table, Row: cell.Row, Mut: mut, Deadline: deadline}})
}

// lifetime is the deadline of a request that begins now.
func (c *Committer) lifetime() time.Time { return time.Now().Add(c.Store.Timing.RequestLifetime) }

// ClearObserverState erases the stored state of an observer of a cell. The journal goes on listing
// a parked one until the notification is gone: a worker may park the observer for it again
// meanwhile.
func (c *Committer) ClearObserverState(ctx context.Context, s model.ObserverState) error {
	if s.Done {
		return c.changeStates(ctx, s.Cell, clearState(s), c.lifetime())
	}
	return c.clearAnnounced(ctx, s, clearState(s))
}

// clearState erases the stored state of an observer of a cell, up to its notification.
func clearState(s model.ObserverState) *store.Mutation {
	mut := store.NewMutation(2)
	mut.ClearNotify(layout.StateColumn(s), s.Through)
	return mut
}
