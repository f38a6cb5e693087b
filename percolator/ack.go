package percolator

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/tso"
)

// An acknowledgment is a cell of its own beside the observed one (c:ack_O in Figure 5 of the paper). A run of observer O
// writes it like any other cell, as a record of kind lock: the start_ts in that record is the start timestamp of the last
// successful run. Two runs for one change write the same acknowledgment, so one of them conflicts (I12).

// Acknowledgment is what an observer's run has to know about its cell.
type Acknowledgment struct {
	Run      bool          // the cell changed since the observer's last successful run: run it and commit the transaction
	Value    []byte        // the newest value at or below the start timestamp; nil when deleted
	Deleted  bool          // the newest change is a deletion
	CommitTS tso.Timestamp // of the newest change, put or delete; 0: none
	LastRun  tso.Timestamp // start timestamp of the observer's last successful run; 0: never
	Settled  bool          // no other observer of the column has work left; without Run, none at all
}

// Acknowledge begins a run of observer on c: it reads c and the acknowledgments of observers – all that observe c's column,
// observer among them – in one request. If c changed since observer's last successful run, the acknowledgment is buffered in
// tx; and if nobody else has work left, the notify cells up to the start timestamp are erased by the same mutation that
// commits the acknowledgment (I13). Locks are waited for as in Get. Call it before anything else of the transaction, so that
// the acknowledgment becomes the primary.
func (tx *Txn) Acknowledge(ctx context.Context, c Cell, observer string, observers []string) (Acknowledgment, error) {
	if err := errors.Join(tx.open(), tx.mayRead(c)); err != nil {
		return Acknowledgment{}, err
	}
	info, err := tx.check(c)
	switch {
	case err != nil:
		return Acknowledgment{}, err
	case !info.observed[c.Column]:
		return Acknowledgment{}, cellErr(ErrSchemaMismatch, c, "the column is not observed in the schema")
	case slices.ContainsFunc(observers, func(o string) bool { return o == "" || strings.Contains(o, "\x00") }):
		return Acknowledgment{}, cellErr(ErrInvalidArgument, c, "an observer's name is empty or contains the byte 0x00")
	case !slices.Contains(observers, observer):
		return Acknowledgment{}, cellErr(ErrInvalidArgument, c, "observer %q is not among the column's observers", observer)
	}
	change, runs, err := tx.c.readAcks(ctx, tx.snap.ts, c, observers)
	if err != nil {
		return Acknowledgment{}, err
	}
	ack := Acknowledgment{Value: change.value, CommitTS: change.record.commitTS, Deleted: change.record.kind == kindDelete,
		LastRun: runs[observer], Settled: true}
	ack.Run = ack.CommitTS > ack.LastRun
	for name, last := range runs {
		if name != observer && ack.CommitTS > last {
			ack.Settled = false
		}
	}
	if !ack.Run {
		return ack, nil
	}
	if err := tx.put(&write{cell: Cell{c.Table, c.Row, ackColumn(c.Column, observer)}, kind: kindLock}); err != nil {
		return Acknowledgment{}, err
	}
	if ack.Settled {
		tx.mu.Lock()
		tx.erase[c] = true
		tx.mu.Unlock()
	}
	return ack, nil
}

// keepNotification takes back what Acknowledge has decided about the notify cells of c.
func (tx *Txn) keepNotification(c Cell) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	delete(tx.erase, c)
}

// readAcks returns the newest change of c at ts and the last run of each observer.
func (c *Client) readAcks(ctx context.Context, ts tso.Timestamp, cell Cell, observers []string) (cellResult, map[string]tso.Timestamp, error) {
	columns := []string{cell.Column}
	for _, o := range observers {
		columns = append(columns, ackColumn(cell.Column, o))
	}
	rv := rowVersions{}
	for _, part := range (&rowWants{row: cell.Row, columns: columns, index: make([]int, len(columns))}).split() { // almost always one
		seen, err := c.readVersions(ctx, cell.Table, cell.Row, snapshotFilter(part.columns, ts, 1))
		if err != nil {
			return cellResult{}, nil, err
		}
		maps.Copy(rv, seen)
	}
	change, err := c.settleRead(ctx, ts, cell, rv[cell.Column], 1, true)
	if err != nil {
		return cellResult{}, nil, err
	}
	runs := make(map[string]tso.Timestamp, len(observers))
	for i, o := range observers {
		at := Cell{cell.Table, cell.Row, columns[i+1]}
		if runs[o], err = c.settleAck(ctx, ts, at, rv[at.Column]); err != nil {
			return cellResult{}, nil, err
		}
	}
	return change, runs, c.meta.checkRead(ctx, ts)
}

// settleAck is settleRead for an acknowledgment: the newest record of kind lock counts, and a rollback marker is not a run.
func (c *Client) settleAck(ctx context.Context, ts tso.Timestamp, ack Cell, v *versions) (tso.Timestamp, error) {
	pause := newLockWait()
	for window := 1; ; {
		if v != nil && v.corrupt != nil {
			return 0, v.corrupt
		}
		last, lock, deeper := v.lastRun(ts, window)
		switch {
		case lock != nil:
			commitTS, err := c.passLock(ctx, ack, *lock, &pause)
			if err != nil {
				return 0, lockedErr(ctx, ack, *lock, err)
			}
			if commitTS != 0 {
				v, window = v.committed(*lock, commitTS, window)
				continue
			}
		case !deeper:
			return last, nil
		default:
			window *= 4
		}
		rv, err := c.readVersions(ctx, ack.Table, ack.Row, snapshotFilter([]string{ack.Column}, ts, window))
		if err != nil {
			return 0, err
		}
		v = rv[ack.Column]
	}
}

// lastRun finds the start timestamp of the newest run at ts, a lock that hides it, or that more versions are needed. It is pure.
func (v *versions) lastRun(ts tso.Timestamp, window int) (last tso.Timestamp, lock *lockRecord, deeper bool) {
	if v == nil {
		return 0, nil, false
	}
	for i := range v.locks {
		if v.locks[i].startTS <= ts {
			return 0, &v.locks[i], false
		}
	}
	for _, w := range v.writes {
		switch {
		case w.commitTS > ts:
		case w.kind == kindLock:
			return w.startTS, nil, false
		case w.kind == kindDelete: // the observer was forgotten since
			return 0, nil, false
		}
	}
	return 0, nil, len(v.writes) >= window
}
