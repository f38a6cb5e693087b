package meta_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// What was dropped is remembered by name, up to a limit. A drop for whose end there is no room does
// not begin, and one that has begun ends, whatever is stored by then.
func TestDropsHaveALimit(t *testing.T) {
	t.Parallel()
	const most = 10 << 20
	l := layertest.New(t, layertest.StartEmulator(t), "i")
	ctx := t.Context()
	plant := func(column string, value any) {
		t.Helper()
		b, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		mut := store.NewMutation(1)
		mut.Put(layout.MetaFamily, column, store.MetaTimestamp, b)
		if err := l.Store.Mutate(ctx, model.MetaTable, meta.RowKey, mut); err != nil {
			t.Fatal(err)
		}
	}
	// dropped is what leaves so many bytes less than the drop of t takes at its end.
	dropped := func(short int) meta.Drops {
		whole, err := json.Marshal(meta.Drops{"": {At: 5}, "t": {At: tso.MaxTimestamp, Exists: true}})
		if err != nil {
			t.Fatal(err)
		}
		return meta.Drops{strings.Repeat("n", most-len(whole)+short): {At: 5}}
	}
	begin := func() ([]string, error) {
		t.Helper()
		dropping, _, err := l.Meta.BeginDrop(ctx, new(model.Schema), 7, nil)
		return dropping, err
	}
	plant("dropped", dropped(1))
	dropping, err := begin()
	m, rerr := l.Meta.Refresh(ctx)
	if !errors.Is(err, model.ErrTooLarge) || !strings.Contains(err.Error(), "create tables under such names") || rerr != nil || len(m.Schema.Tables) != 1 {
		t.Fatalf("beyond the limit: dropping %q, %.300v, %v", dropping, err, rerr)
	}
	plant("dropped", dropped(0))
	if dropping, err = begin(); err != nil || !slices.Equal(dropping, []string{"t"}) {
		t.Fatalf("at the limit: dropping %q, %.300v", dropping, err)
	}
	plant("dropped", dropped(100))
	if err := l.Meta.EndDrop(ctx, dropping, 9); err != nil {
		t.Fatalf("beside more than there may be: %.300v", err)
	}
	deleted, err := l.Meta.DeleteDropped(ctx, func(context.Context, string) error { return nil })
	if err != nil || !slices.Equal(deleted, []string{"t"}) {
		t.Fatalf("deleted %q, %.300v", deleted, err)
	}
	if m, err = l.Meta.Refresh(ctx); err != nil || m.Dropped["t"] != (meta.Drop{At: 9}) || len(m.Dropped) != 2 {
		t.Errorf("%v, dropped %+v, and %d in all", err, m.Dropped["t"], len(m.Dropped))
	}
}
