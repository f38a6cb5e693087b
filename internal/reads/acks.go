package reads

import (
	"context"
	"maps"

	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/locks"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/store"
	"github.com/gopercolator/percolator/tso"
)

// ReadAcks returns the newest change of c at ts and the last run of each observer.
func (r *Reader) ReadAcks(ctx context.Context, ts tso.Timestamp, cell model.Cell, observers []string) (CellResult, map[string]tso.Timestamp, error) {
	columns := []string{cell.Column}
	for _, o := range observers {
		columns = append(columns, layout.AckColumn(cell.Column, o))
	}
	rv := layout.RowVersions{}
	for _, part := range (&rowWants{row: cell.Row, columns: columns, index: make([]int, len(columns))}).split() { // almost always one
		seen, err := r.store.ReadVersions(ctx, cell.Table, cell.Row, store.Newest(part.columns, ts, 1))
		if err != nil {
			return CellResult{}, nil, err
		}
		maps.Copy(rv, seen)
	}
	change, err := r.FinishRead(ctx, ts, cell, rv[cell.Column], 1, true)
	if err != nil {
		return CellResult{}, nil, err
	}
	runs := make(map[string]tso.Timestamp, len(observers))
	for i, o := range observers {
		at := model.Cell{Table: cell.Table, Row: cell.Row, Column: columns[i+1]}
		if runs[o], err = r.FinishAck(ctx, ts, at, rv[at.Column]); err != nil {
			return CellResult{}, nil, err
		}
	}
	return change, runs, r.meta.CheckRead(ctx, ts)
}

// FinishAck is FinishRead for an acknowledgment: the newest record of kind lock counts, and a
// rollback marker is not a run.
func (r *Reader) FinishAck(ctx context.Context, ts tso.Timestamp, ack model.Cell, v *layout.Versions) (tso.Timestamp, error) {
	pause := locks.NewLockWait()
	for window := 1; ; {
		if v != nil && v.Corrupt != nil {
			return 0, v.Corrupt
		}
		last, lock, deeper := v.LastRun(ts, window)
		switch {
		case lock != nil:
			commitTS, err := r.locks.ResolveOrWait(ctx, ack, *lock, &pause)
			if err != nil {
				return 0, locks.LockedErr(ctx, ack, *lock, err)
			}
			if commitTS != 0 {
				v, window = v.Committed(*lock, commitTS, window)
				continue
			}
		case !deeper:
			return last, nil
		default:
			window *= 4
		}
		rv, err := r.store.ReadVersions(ctx, ack.Table, ack.Row, store.Newest([]string{ack.Column}, ts, window))
		if err != nil {
			return 0, err
		}
		v = rv[ack.Column]
	}
}
