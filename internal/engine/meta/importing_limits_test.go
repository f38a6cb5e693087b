package meta_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// longImport has as many aborted imports behind it, and writes to as many indexes, as it can, under
// a name that JSON makes long.
func longImport() *meta.Import {
	i := &meta.Import{ID: strings.Repeat("\x01", 1<<10), Phase: meta.ImportLoad, Started: time.Unix(1e9, 0).UTC(), Start: tso.MaxTimestamp, Commit: tso.MaxTimestamp}
	for n := range model.MaxTables {
		i.Indexes = append(i.Indexes, fmt.Sprintf("%s%04d", strings.Repeat("n", 40), n))
	}
	for range meta.MaxErasedImports {
		i.Erased = append(i.Erased, meta.ErasedImport{Start: tso.MaxTimestamp, Commit: tso.MaxTimestamp, At: tso.MaxTimestamp})
	}
	return i
}

// The fence of an import is replaced by those who have read it, however long it is: also one that
// an earlier version has stored, and one that a repair has written again (J10).
func TestFenceOfAnImportWithALongHistory(t *testing.T) {
	t.Parallel()
	l := layertest.New(t, layertest.StartEmulator(t), "i")
	read := func() *meta.Import {
		t.Helper()
		m, err := l.Meta.Refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i := m.Imports["t"]
		return &i
	}
	replace := func(old, next *meta.Import, want bool) {
		t.Helper()
		if replaced, err := l.Meta.ReplaceImport(t.Context(), "t", old, next); err != nil || replaced != want {
			t.Errorf("replaced: %v, %v", replaced, err)
		}
	}
	long := longImport()
	replace(nil, long, true)
	first := read()
	if len(first.Erased) != meta.MaxErasedImports || len(first.Encode()) < 50_000 || len(first.Encode()) > 100_000 {
		t.Fatalf("%d bytes with %d aborted imports", len(first.Encode()), len(first.Erased))
	}
	next := *first
	next.Takeovers++
	replace(first, &next, true)
	replace(first, &next, false)
	next = *read()
	replace(&next, long, true) // the same contents as at first
	replace(first, &next, false)

	raw := *long
	raw.Nonce = ""
	mut := store.NewMutation(1)
	mut.Put("meta", "import:t", store.MetaTimestamp, raw.Encode())
	if err := l.Store.Mutate(t.Context(), model.MetaTable, meta.RowKey, mut); err != nil {
		t.Fatal(err)
	}
	replace(read(), &next, true)
	replace(&raw, &next, false)
	replace(read(), nil, true)
}
