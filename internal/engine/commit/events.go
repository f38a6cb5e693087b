package commit

import (
	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// What becomes true of a transaction is told here alone to those in this client who go by it: reads
// that meet its locks, the owner of its entry in the journal, workers, and blind transactions. The
// commit point is one event, and the end of phase two for a row is the other. Only reads that wait
// for the outcome hear of it from run, as there may be no commit.

// committed tells of the commit point, which is also the end of the primary's row.
func (cm *commit) committed(commitTS tso.Timestamp) {
	primary := cm.rows[0]
	cm.c.Recent.wrote(cm.rows, commitTS)
	// Phase two is in flight: readers of this client need not look at the primary.
	cm.c.Locks.Decided.Add(cm.id(), locks.TxnStatus{State: locks.TxnCommitted, CommitTS: commitTS})
	cm.c.Journal.Own.Committed(cm.entry, commitTS, len(cm.rows)-1, append(primary.notified(), cm.weak...))
	cm.wrote(primary, commitTS)
	cm.notified(cm.weak, commitTS)
}

// rowDone tells that phase two has committed a row, or has left it to lock resolution.
func (cm *commit) rowDone(rw *rowWrites, commitTS tso.Timestamp, err error) {
	cm.c.Locks.Own.RowDone(cm.startTS)
	cm.c.Journal.Own.RowDone(cm.entry, err, rw.notified()...)
	if err != nil {
		cm.c.Store.Warn(cm.c.Config.Logger, "phase two left to lock resolution", err, "table", rw.table, "start_ts", cm.startTS)
		return
	}
	cm.wrote(rw, commitTS)
}

// wrote tells of the notify cells that a committed row carries, and of those that it erased.
func (cm *commit) wrote(rw *rowWrites, commitTS tso.Timestamp) {
	for _, col := range rw.erase {
		cm.c.Journal.Own.Cleared(model.Cell{Table: rw.table, Row: rw.row, Column: col}, cm.startTS, cm.started)
	}
	cm.notified(rw.notified(), commitTS)
}

func (cm *commit) notified(cells []model.Cell, ts tso.Timestamp) {
	for _, cell := range cells {
		cm.c.Dispatch.Notified(model.Notification{Cell: cell, Timestamp: ts})
	}
}
