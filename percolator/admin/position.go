package admin

import (
	"context"
	"fmt"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// walkPosition is a row of percolator_meta that holds how far a backfill or an observer walk has
// come, so that the next run goes on there after a crash.
//
// It is saved without a condition: a run beside it, or a late duplicate of a request, can only put
// the position back, and everything before any position that was ever saved is done for good, as
// long as what it is for lives (meta/lives.go). A deletion, and a loader, replaces only a position
// that it has seen (package position).
type walkPosition struct{ store.MetaCell }

func positionAt(s *store.Store, row string) store.MetaCell {
	return store.MetaCell{Store: s, Row: row, Column: positionColumn}
}

const (
	positionColumn = "state"

	loadRowPrefix = meta.LoadRowPrefix
)

// save stores at as JSON.
func (p walkPosition) save(ctx context.Context, at any) error {
	mut := store.NewMutation(2)
	mut.Put(layout.MetaFamily, positionColumn, store.MetaTimestamp, layout.JSON(at))
	return p.Store.Mutate(ctx, model.MetaTable, p.Row, mut)
}

// forget erases the row.
func (p walkPosition) forget(ctx context.Context) error {
	mut := store.NewMutation(2)
	mut.EraseRow()
	return p.Store.Mutate(ctx, model.MetaTable, p.Row, mut)
}

// unreadable is the error for a position that cannot be decoded.
func unreadable(c store.MetaCell, what string) error {
	return fmt.Errorf("percolator: %w: %s in %s cannot be read; erase row %q there to start afresh", model.ErrCorrupt, what, model.MetaTable, c.Row)
}

const (
	// MaxLoadName is how long the name of a load may be, in bytes. Beyond it SaveLoadPosition
	// returns ErrInvalidArgument.
	MaxLoadName = 256
	// MaxLoadPosition is how long a position may be, in bytes. Beyond it SaveLoadPosition returns
	// ErrTooLarge.
	MaxLoadPosition = 16 << 10
)

// LoadPosition returns what SaveLoadPosition has stored under the name; nil: nothing. It makes one
// request. Errors: ErrInvalidArgument for the name, ErrClosed, and those of the store.
func (a *Admin) LoadPosition(ctx context.Context, name string) ([]byte, error) {
	if err := a.checkLoad(ctx, name); err != nil {
		return nil, err
	}
	stored, err := positionAt(a.e.Store, loadRowPrefix+name).Read(ctx)
	return store.ComparedBytes(stored), err
}

// SaveLoadPosition replaces former (nil: nothing) by next under the name of a bulk load. The bytes
// mean something to the loader only (package loader). ErrConflict: the stored position is not
// former, so another loader works under the same name.
//
// It makes one request and does not repeat it: after any other error next may have been stored, or
// may be later. So a position must never equal an earlier one of the same name, or a delayed
// request could take effect twice; a counter in the position is enough. The row remains for good.
// If former is so long that an earlier version may have stored it, a refusal takes a second
// request.
//
// Errors: ErrInvalidArgument for the name or an empty next; ErrTooLarge for a next longer than
// MaxLoadPosition; ErrClosed; those of the store.
func (a *Admin) SaveLoadPosition(ctx context.Context, name string, former, next []byte) error {
	if err := a.checkLoad(ctx, name); err != nil {
		return err
	}
	if len(next) == 0 {
		return fmt.Errorf("percolator: %w: the position of a load is empty", model.ErrInvalidArgument)
	}
	if len(next) > MaxLoadPosition {
		return fmt.Errorf("percolator: %w: the position of a load has %d bytes, more than %d", model.ErrTooLarge, len(next), MaxLoadPosition)
	}
	row, was, is := loadRowPrefix+name, store.ComparableBytes(former), store.ComparableBytes(next)
	replaced, err := a.e.Store.CompareAndSet(ctx, row, positionColumn, was, is)
	if err == nil && !replaced && len(was) > len(former) {
		replaced, err = a.e.Store.CompareAndSet(ctx, row, positionColumn, former, is)
	}
	if err != nil {
		return fmt.Errorf("percolator: saving the position of load %q: %w", name, err)
	}
	if !replaced {
		return fmt.Errorf("percolator: %w: the position of load %q is not the one that was expected", model.ErrConflict, name)
	}
	return nil
}

func (a *Admin) checkLoad(ctx context.Context, name string) error {
	if err := retry.CheckContext(ctx); err != nil {
		return err
	}
	if name == "" || len(name) > MaxLoadName {
		return fmt.Errorf("percolator: %w: the name of a load has %d bytes, not 1 to %d", model.ErrInvalidArgument, len(name), MaxLoadName)
	}
	if a.e.Store.Closed.Load() {
		return fmt.Errorf("percolator: %w", model.ErrClosed)
	}
	return nil
}
