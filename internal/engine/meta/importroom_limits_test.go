package meta_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
)

// The meta row remembers imports into so many tables. Where there is no room it forgets what nobody
// asks for any more, and nothing else.
func TestImportsHaveALimit(t *testing.T) {
	t.Parallel()
	l := layertest.New(t, layertest.StartEmulator(t), "i")
	put := func(column string, value []byte) {
		t.Helper()
		mut := store.NewMutation(1)
		mut.Put(layout.MetaFamily, column, store.MetaTimestamp, value)
		if err := l.Store.Mutate(t.Context(), model.MetaTable, meta.RowKey, mut); err != nil {
			t.Fatal(err)
		}
	}
	room := func(table string) (m meta.State, err error) {
		t.Helper()
		if m, err = l.Meta.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		err = l.Meta.RoomForImport(t.Context(), m, table)
		m, rerr := l.Meta.Refresh(t.Context())
		return m, errors.Join(err, rerr)
	}
	const safepoint = 5
	put("safepoint", []byte{0, 0, 0, 0, 0, 0, 0, safepoint})
	put("lives", []byte(`{"gone":2,"above":2,"importing":2,"erased":2,"t":2}`))
	full := store.NewMutation(meta.MaxImports)
	for i := range meta.MaxImports - 6 {
		full.Put(layout.MetaFamily, fmt.Sprint("import:table", i), store.MetaTimestamp, meta.Import{Since: 1}.Encode()) // no life of theirs has ended
	}
	for table, i := range map[string]meta.Import{
		"t":         {Since: safepoint}, // it is there
		"above":     {Since: safepoint + 1},
		"importing": {Since: safepoint, Phase: meta.ImportLoad},
		"erased":    {Since: safepoint, Erased: []meta.ErasedImport{{At: safepoint + 1}}},
		"gone":      {Since: safepoint, Erased: []meta.ErasedImport{{At: safepoint}}},
	} {
		full.Put(layout.MetaFamily, "import:"+table, store.MetaTimestamp, i.Encode())
	}
	if err := l.Store.Mutate(t.Context(), model.MetaTable, meta.RowKey, full); err != nil {
		t.Fatal(err)
	}
	if m, err := room("new"); err != nil || len(m.Imports) != meta.MaxImports-1 {
		t.Fatalf("one below the limit: %v, %d imports", err, len(m.Imports))
	}
	put("import:one more", meta.Import{Since: 1}.Encode())
	if m, err := room("t"); err != nil || len(m.Imports) != meta.MaxImports {
		t.Fatalf("a table that has its cell: %v, %d imports", err, len(m.Imports))
	}
	m, err := room("new")
	if _, there := m.Imports["gone"]; err != nil || there || len(m.Imports) != meta.MaxImports-1 {
		t.Fatalf("at the limit: %v, %d imports are left, the one that says nothing is there: %v", err, len(m.Imports), there)
	}
	put("import:new", meta.Import{Since: 1}.Encode())
	if m, err := room("another"); !errors.Is(err, model.ErrTooLarge) || len(m.Imports) != meta.MaxImports {
		t.Fatalf("beyond the limit: %v, %d imports", err, len(m.Imports))
	}
}
