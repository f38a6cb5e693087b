package reads

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
)

// The filter of a read stays below Bigtable's 20 KB, whatever the columns.
func TestFiltersOfReadsStayBelowTheLimit(t *testing.T) {
	t.Parallel()
	w := &rowWants{row: "r"}
	for i := range 20 {
		long := fmt.Sprintf("%02d", i) + strings.Repeat("\xff", model.MaxColumnBytes-2)
		w.columns, w.index = append(w.columns, long), append(w.index, i)
	}
	for _, part := range w.split() {
		if size := layertest.PredicateBytes(t, store.Newest(part.columns, 1<<40, 1)); size > 20<<10 {
			t.Errorf("the filter of %d columns has %d bytes", len(part.columns), size)
		}
	}
}

// FuzzSplit: however a row's columns are called, requests name each of them exactly once, in order,
// and their patterns fit.
func FuzzSplit(f *testing.F) {
	f.Add("a", "b", uint16(3))
	f.Add(strings.Repeat("\xff", 2000), "x", uint16(40))
	f.Add("", "", uint16(0))
	f.Fuzz(func(t *testing.T, a, b string, n uint16) {
		wants := &rowWants{row: "r"}
		for i := range int(n % 512) {
			column := fmt.Sprint([]string{a, b}[i%2], i)
			if len(column) > model.MaxColumnBytes {
				return
			}
			wants.columns, wants.index = append(wants.columns, column), append(wants.index, i)
		}
		var columns []string
		var index []int
		for _, part := range wants.split() {
			columns, index = append(columns, part.columns...), append(index, part.index...)
			pattern := 0
			for _, column := range part.columns {
				pattern += store.PatternBytes(column)
			}
			if pattern > model.MaxFilterBytes {
				t.Errorf("a pattern of up to %d bytes", pattern)
			}
		}
		if !slices.Equal(columns, wants.columns) || !slices.Equal(index, wants.index) {
			t.Errorf("the parts hold %d of %d columns", len(columns), len(wants.columns))
		}
	})
}
