package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/meta"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/store"
)

// The position is a row of percolator_meta for each index. It is written without a condition: a
// backfill that runs beside this one, or a late duplicate of a request, can only put it back to an
// earlier position, and everything before any position that was ever written is done for good.
const (
	backfillState = "state"

	saveTimeout = 2 * time.Second
)

// backfillCell is the stored cell.
type backfillCell struct {
	BackfillProgress
	RowKey []byte // BackfillProgress.Row, which JSON would damage
}

func (b *backfill) row() string { return meta.BackfillRowPrefix + b.ix.TableName(b.table) }

// load takes up the position of an earlier run.
func (b *backfill) load(ctx context.Context) error {
	b.at.Phase = BackfillDrain
	row, err := b.c.Store.ReadRow(ctx, model.MetaTable, b.row(), store.Cells("", 0))
	if err != nil || len(row.Of(layout.MetaFamily)) == 0 {
		return err
	}
	if b.at, err = decodeBackfillCell(row.Of(layout.MetaFamily)[0].Value); err != nil {
		return fmt.Errorf("percolator: %w: the position of the backfill in %s cannot be read; erase row %q there to start afresh", model.ErrCorrupt, model.MetaTable, b.row())
	}
	b.resumed = true
	return nil
}

func decodeBackfillCell(v []byte) (at backfillCell, err error) {
	if err := json.Unmarshal(v, &at); err != nil {
		return at, err
	}
	switch at.Phase {
	case BackfillDrain, BackfillSweep, BackfillFill:
	default:
		return at, model.ErrCorrupt
	}
	at.Row = string(at.RowKey)
	return at, nil
}

func (b *backfill) save(ctx context.Context) error {
	b.at.RowKey = []byte(b.at.Row)
	v, err := json.Marshal(b.at)
	if err != nil {
		return err
	}
	mut := store.NewMutation(2)
	mut.Put(layout.MetaFamily, backfillState, store.MetaTimestamp, v)
	b.unsaved = 0
	return b.write(ctx, mut)
}

// saveUnfinished spares the next run what this one has done. The caller's context may have ended.
func (b *backfill) saveUnfinished(ctx context.Context) {
	if b.unsaved == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	if err := b.save(ctx); err != nil {
		b.c.Config.Logger.Warn("position of a backfill not saved", "index", b.ix.TableName(b.table), "error", err)
	}
}

// forget removes the position of a finished backfill.
func (b *backfill) forget(ctx context.Context) error {
	mut := store.NewMutation(2)
	mut.EraseRow()
	return b.write(ctx, mut)
}

func (b *backfill) write(ctx context.Context, mut *store.Mutation) error {
	return b.c.Store.Mutate(ctx, model.MetaTable, b.row(), mut)
}
