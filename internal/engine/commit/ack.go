package commit

import (
	"context"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// An acknowledgment is a cell of its own beside the observed one (c:ack_O in Figure 5 of the
// paper). A run of observer O writes it like any other cell, as a record of kind lock: the start_ts
// in that record is the start timestamp of the last successful run. Two runs for one change write
// the same acknowledgment, so one of them conflicts (I12).

// Acknowledgment is what a run of an observer has to know about its cell.
type Acknowledgment struct {
	// Run: the cell changed since the last successful run, so run the observer and commit.
	Run      bool
	Value    []byte        // the newest value at or below the start timestamp; nil when deleted
	Deleted  bool          // the newest change is a deletion, or a put that has expired
	CommitTS tso.Timestamp // of the newest change, put or delete; 0: none
	LastRun  tso.Timestamp // start timestamp of the observer's last successful run; 0: never
	Finished bool          // no other observer of the column has work left; without Run: none has
}

// Acknowledge begins a run of observer on c: AcknowledgeAll for one cell.
func (tx *Txn) Acknowledge(ctx context.Context, c model.Cell, observer string, observers []string) (Acknowledgment, error) {
	acks, err := tx.AcknowledgeAll(ctx, []model.Cell{c}, observer, observers)
	if err != nil {
		return Acknowledgment{}, err
	}
	return acks[0], nil
}

// AcknowledgeAll begins a run of observer on cells of one column, which are in row order without
// repetition. One request reads them and the acknowledgments of observers, which are all that
// observe the column, observer among them. For each cell that changed since observer's last
// successful run, AcknowledgeAll buffers the acknowledgment in tx; and if no other observer has
// work left there, the mutation that commits the acknowledgment also erases the notify cells up to
// the start timestamp (I13). Like Get it waits for locks. Call it before anything else of the
// transaction, so that an acknowledgment becomes the primary.
//
// It returns an answer for at least one cell. Where the values are large it leaves the last cells
// out, as reads.ReadAcks does.
func (tx *Txn) AcknowledgeAll(ctx context.Context, cells []model.Cell, observer string, observers []string) ([]Acknowledgment, error) {
	if err := tx.open(); err != nil {
		return nil, err
	}
	for _, c := range cells {
		if err := tx.mayAcknowledge(c, observer, observers); err != nil {
			return nil, err
		}
	}
	found, err := tx.c.Reads.ReadAcks(ctx, tx.StartTimestamp(), cells, observers)
	if err != nil {
		return nil, err
	}
	acks := make([]Acknowledgment, len(found))
	for i, f := range found {
		acks[i] = acknowledgmentOf(f, observer)
		if err := tx.putAck(cells[i], observer, acks[i]); err != nil {
			return nil, err
		}
	}
	return acks, nil
}

func (tx *Txn) mayAcknowledge(c model.Cell, observer string, observers []string) error {
	if err := tx.mayRead(c); err != nil {
		return err
	}
	info, err := tx.check(c)
	switch {
	case err != nil:
		return err
	case !info.IsObserved[c.Column]:
		return catalog.CellError(model.ErrSchemaMismatch, c, "the column is not observed in the schema")
	case slices.ContainsFunc(observers, func(o string) bool { return o == "" || strings.Contains(o, "\x00") }):
		return catalog.CellError(model.ErrInvalidArgument, c, "an observer's name is empty or contains the byte 0x00")
	case !slices.Contains(observers, observer):
		return catalog.CellError(model.ErrInvalidArgument, c, "observer %q is not among the column's observers", observer)
	}
	return nil
}

func acknowledgmentOf(found reads.AckedCell, observer string) Acknowledgment {
	change := found.Change
	ack := Acknowledgment{Value: change.Value, CommitTS: change.Record.CommitTS, Deleted: change.Value == nil && change.Record.CommitTS != 0,
		LastRun: found.Runs[observer], Finished: true}
	ack.Run = ack.CommitTS > ack.LastRun
	for name, last := range found.Runs {
		if name != observer && ack.CommitTS > last {
			ack.Finished = false
		}
	}
	return ack
}

// putAck buffers the acknowledgment of a cell that is to be run for.
func (tx *Txn) putAck(c model.Cell, observer string, ack Acknowledgment) error {
	if !ack.Run {
		return nil
	}
	if err := tx.Put(&Write{Cell: model.Cell{Table: c.Table, Row: c.Row, Column: layout.AckColumn(c.Column, observer)}, Kind: layout.KindLock}); err != nil {
		return err
	}
	if ack.Finished {
		tx.mu.Lock()
		tx.erase[c] = true
		tx.mu.Unlock()
	}
	return nil
}

// keepNotification reverses what Acknowledge decided about the notify cells of c.
func (tx *Txn) keepNotification(c model.Cell) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	delete(tx.erase, c)
}
