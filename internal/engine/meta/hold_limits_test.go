package meta_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// There are so many holds at once. Those that have expired make room, without a collector.
func TestHoldsHaveALimit(t *testing.T) {
	t.Parallel()
	l := layertest.New(t, layertest.StartEmulator(t), "i")
	plant := func(n int, expires tso.Timestamp) (column string) {
		t.Helper()
		mut := store.NewMutation(n)
		for i := range n {
			column = fmt.Sprintf("hold:%d-%d", expires, i)
			value := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 1), uint64(expires))
			mut.Put(layout.MetaFamily, column, store.MetaTimestamp, value)
		}
		if err := l.Store.Mutate(t.Context(), model.MetaTable, meta.RowKey, mut); err != nil {
			t.Fatal(err)
		}
		return column
	}
	take := func(want error) {
		t.Helper()
		if _, err := l.Meta.TakeHold(t.Context(), 0, 0, "a test"); !errors.Is(err, want) || want == nil && err != nil {
			t.Fatal(err)
		}
	}
	one := plant(model.MaxHolds-1, tso.MaxTimestamp)
	take(nil)
	take(model.ErrTooLarge)
	mut := store.NewMutation(1)
	mut.EraseColumn(layout.MetaFamily, one)
	if err := l.Store.Mutate(t.Context(), model.MetaTable, meta.RowKey, mut); err != nil {
		t.Fatal(err)
	}
	plant(3, 1)
	take(nil)
	if m, err := l.Meta.Refresh(t.Context()); err != nil || len(m.Holds) != model.MaxHolds {
		t.Errorf("%v, %d holds", err, len(m.Holds))
	}
}
