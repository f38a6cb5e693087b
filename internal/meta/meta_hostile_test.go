package meta_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/layertest"
	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/meta"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/store"
	"github.com/gopercolator/percolator/tso"
)

// TestTheOracleKeepsItsRecordInTheMetaTable: who creates an instance creates the oracle's table.
func TestTheOracleKeepsItsRecordInTheMetaTable(t *testing.T) {
	t.Parallel()
	if model.MetaTable != tso.BigtableTable {
		t.Errorf("the tables are %s and %s", model.MetaTable, tso.BigtableTable)
	}
}

// A meta row that cannot be read is said to be that, to new clients and to those that re-read it;
// nothing is taken from it.
func TestHostileMetaRow(t *testing.T) {
	t.Parallel()
	for column, bytes := range map[string][]string{
		"schema":    {"", "{", `{"Tables": 7}`, `{"Tables":[{"Name":"t","Observed":["\"not quoted"]}]}`},
		"version":   {"", "1", "123456789"},
		"safepoint": {"", "1234567"},
		"mark":      {"", "soon"},
	} {
		for _, b := range bytes {
			ctx, l := t.Context(), layertest.New(t, layertest.StartEmulator(t), "i")
			before, err := l.Meta.Refresh(ctx)
			if err != nil {
				t.Fatal(err)
			}
			mut := store.NewMutation(1)
			mut.Put(layout.MetaFamily, column, store.MetaTimestamp, []byte(b))
			if err := l.Store.Mutate(ctx, model.MetaTable, meta.RowKey, mut); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Meta.Refresh(ctx); !errors.Is(err, model.ErrCorrupt) || !strings.Contains(err.Error(), column) {
				t.Errorf("%s = %q: %v", column, b, err)
			}
			if known, err := l.Meta.Known(ctx); err != nil || known.Version != before.Version || known.Safepoint != before.Safepoint {
				t.Errorf("%s = %q: the client now believes %+v, %v", column, b, known, err)
			}
		}
	}
}

// A schema that asks more of clients than this version does is refused, and the error says why: to
// take part would break what the later version relies on.
func TestSchemaOfALaterVersion(t *testing.T) {
	t.Parallel()
	ctx, l := t.Context(), layertest.New(t, layertest.StartEmulator(t), "i")
	if _, err := l.Meta.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	mut := store.NewMutation(1)
	mut.Put(layout.MetaFamily, "schema", store.MetaTimestamp, []byte(`{"Format":7,"Tables":{"t":{}}}`))
	if err := l.Store.Mutate(ctx, model.MetaTable, meta.RowKey, mut); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := l.Meta.Refresh(ctx); !errors.Is(err, model.ErrSchemaMismatch) || !strings.Contains(err.Error(), "upgrade the program") {
			t.Error(err)
		}
	}
}
