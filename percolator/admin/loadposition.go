package admin

import (
	"context"
	"fmt"

	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/store"
)

// A bulk load keeps how far it has come in a row of percolator_meta of its own, so that it can go
// on there after a crash. What is stored is the loader's (package loader); here is only that nobody
// overwrites what he has not seen: a loader that runs beside another one under the same name
// notices it with the next position that it saves.
const (
	loadRowPrefix = "load:"
	loadState     = "state"
)

const (
	// MaxLoadName is how long the name of a load may be, in bytes.
	MaxLoadName = 256
	// MaxLoadPosition is how long a position may be, in bytes.
	MaxLoadPosition = 16 << 10
)

// LoadPosition returns what SaveLoadPosition has stored under the name, nil if nothing. One
// request. ErrInvalidArgument: the name.
func (a *Admin) LoadPosition(ctx context.Context, name string) ([]byte, error) {
	if err := a.checkLoad(ctx, name); err != nil {
		return nil, err
	}
	row, err := a.e.Store.ReadRow(ctx, model.MetaTable, loadRowPrefix+name, store.Cells("", 0))
	if err != nil || len(row.Of(layout.MetaFamily)) == 0 {
		return nil, err
	}
	return row.Of(layout.MetaFamily)[0].Value, nil
}

// SaveLoadPosition replaces what is stored under the name by next, if that is former now (nil:
// nothing), and is ErrConflict otherwise. One request, which is not repeated: after any other error
// next may have been stored, or may be later. A position must therefore never be equal to an
// earlier one of the same name, or a request that was under way for long could take effect twice; a
// counter in it is enough.
//
// The row remains for good. ErrInvalidArgument: the name, or next is empty; ErrTooLarge: next is
// longer than MaxLoadPosition.
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
	replaced, err := a.e.Store.CompareAndSet(ctx, loadRowPrefix+name, loadState, former, next)
	if err != nil {
		return fmt.Errorf("percolator: saving the position of load %q: %w", name, err)
	}
	if !replaced {
		return fmt.Errorf("percolator: %w: the position of load %q is not the one that was expected", model.ErrConflict, name)
	}
	return nil
}

func (a *Admin) checkLoad(ctx context.Context, name string) error {
	if err := model.CheckContext(ctx); err != nil {
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
