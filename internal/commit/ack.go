package commit

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/tso"
)

// An acknowledgment is a cell of its own beside the observed one (c:ack_O in Figure 5 of the
// paper). A run of observer O writes it like any other cell, as a record of kind lock: the start_ts
// in that record is the start timestamp of the last successful run. Two runs for one change write
// the same acknowledgment, so one of them conflicts (I12).

// Acknowledgment is what a run of an observer has to know about its cell.
type Acknowledgment struct {
	Run      bool          // the cell changed since the last successful run: run the observer and commit
	Value    []byte        // the newest value at or below the start timestamp; nil when deleted
	Deleted  bool          // the newest change is a deletion
	CommitTS tso.Timestamp // of the newest change, put or delete; 0: none
	LastRun  tso.Timestamp // start timestamp of the observer's last successful run; 0: never
	Finished bool          // no other observer of the column has work left; without Run, none at all
}

// Acknowledge begins a run of observer on c. One request reads c and the acknowledgments of
// observers, which are all that observe c's column, observer among them. If c changed since
// observer's last successful run, Acknowledge buffers the acknowledgment in tx; and if no other
// observer has work left, the mutation that commits the acknowledgment also erases the notify cells
// up to the start timestamp (I13). Like Get it waits for locks. Call it before anything else of the
// transaction, so that the acknowledgment becomes the primary.
func (tx *Txn) Acknowledge(ctx context.Context, c model.Cell, observer string, observers []string) (Acknowledgment, error) {
	if err := errors.Join(tx.open(), tx.mayRead(c)); err != nil {
		return Acknowledgment{}, err
	}
	info, err := tx.check(c)
	switch {
	case err != nil:
		return Acknowledgment{}, err
	case !info.IsObserved[c.Column]:
		return Acknowledgment{}, model.CellError(model.ErrSchemaMismatch, c, "the column is not observed in the schema")
	case slices.ContainsFunc(observers, func(o string) bool { return o == "" || strings.Contains(o, "\x00") }):
		return Acknowledgment{}, model.CellError(model.ErrInvalidArgument, c, "an observer's name is empty or contains the byte 0x00")
	case !slices.Contains(observers, observer):
		return Acknowledgment{}, model.CellError(model.ErrInvalidArgument, c, "observer %q is not among the column's observers", observer)
	}
	change, runs, err := tx.c.Reads.ReadAcks(ctx, tx.StartTimestamp(), c, observers)
	if err != nil {
		return Acknowledgment{}, err
	}
	ack := Acknowledgment{Value: change.Value, CommitTS: change.Record.CommitTS, Deleted: change.Record.Kind == layout.KindDelete,
		LastRun: runs[observer], Finished: true}
	ack.Run = ack.CommitTS > ack.LastRun
	for name, last := range runs {
		if name != observer && ack.CommitTS > last {
			ack.Finished = false
		}
	}
	if !ack.Run {
		return ack, nil
	}
	if err := tx.Put(&Write{Cell: model.Cell{Table: c.Table, Row: c.Row, Column: layout.AckColumn(c.Column, observer)}, Kind: layout.KindLock}); err != nil {
		return Acknowledgment{}, err
	}
	if ack.Finished {
		tx.mu.Lock()
		tx.erase[c] = true
		tx.mu.Unlock()
	}
	return ack, nil
}

// keepNotification reverses what Acknowledge decided about the notify cells of c.
func (tx *Txn) keepNotification(c model.Cell) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	delete(tx.erase, c)
}
