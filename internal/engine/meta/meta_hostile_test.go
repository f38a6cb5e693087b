package meta_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
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
		"schema":    {"", "{", `{"Format":"7"}`, `{"Format":7,"Tables":7}`, `{"Format":7,"Tables":[{"Name":"t","Observed":["\"not quoted"]}]}`},
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

// A client refuses a schema of another format, and the error says why: to take part would break
// what the other programs rely on.
func TestSchemaOfAnotherFormat(t *testing.T) {
	t.Parallel()
	ctx, l := t.Context(), layertest.New(t, layertest.StartEmulator(t), "i")
	if _, err := l.Meta.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	mut := store.NewMutation(1)
	mut.Put(layout.MetaFamily, "schema", store.MetaTimestamp, []byte(`{"Format":8,"Tables":{"t":{}}}`))
	if err := l.Store.Mutate(ctx, model.MetaTable, meta.RowKey, mut); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := l.Meta.Refresh(ctx); !errors.Is(err, model.ErrSchemaMismatch) || !strings.Contains(err.Error(), "upgrade this program") {
			t.Error(err)
		}
	}
}

// What a client decodes of the row again, as it has changed, and what it keeps are together what
// one knows who reads the row for the first time.
func TestKnowledgeThatIsKeptIsTheRow(t *testing.T) {
	t.Parallel()
	ctx, l := t.Context(), layertest.New(t, layertest.StartEmulator(t), "i")
	values := map[string][]string{
		meta.ColumnIndexes: {`{"a":{"Building":true}}`, `{"a":{"Building":true},"b":{"Building":true}}`},
		"dropped":          {`{"x":{"At":5}}`, `{"x":{"At":5},"y":{"At":7,"Exists":true}}`},
		"lives":            {`{"x":3}`, `{"y":4}`},
		"import:t":         {string(meta.Import{Phase: meta.ImportLoad}.Encode()), string(meta.Import{Since: 9}.Encode())},
		"import:u":         {string(meta.Import{Phase: meta.ImportAbort}.Encode()), string(meta.Import{Since: 11}.Encode())},
	}
	columns := slices.Sorted(maps.Keys(values))
	r, differed := rand.New(rand.NewPCG(1, 2)), 0
	var before meta.State
	for step := range 200 {
		column := columns[r.IntN(len(columns))]
		mut := store.NewMutation(1)
		if n := r.IntN(len(values[column]) + 1); n < len(values[column]) {
			mut.Put(layout.MetaFamily, column, store.MetaTimestamp, []byte(values[column][n]))
		} else {
			mut.EraseColumn(layout.MetaFamily, column)
		}
		fixture.Must(t, l.Store.Mutate(ctx, model.MetaTable, meta.RowKey, mut))
		known, err := l.Meta.Refresh(ctx)
		fixture.Must(t, err)
		anew, err := meta.Read(ctx, l.Store)
		fixture.Must(t, err)
		if known.Now, anew.Now = 0, 0; !reflect.DeepEqual(known, anew) {
			t.Fatalf("step %d, %s: the client knows %+v, the row says %+v", step, column, known, anew)
		}
		if !reflect.DeepEqual(known, before) {
			differed++
		}
		before = known
	}
	if differed < 50 {
		t.Errorf("the row changed %d times in 200 steps", differed)
	}
}
