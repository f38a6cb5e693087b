package reads

import (
	"slices"
	"testing"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/percolator/model"
)

func TestSelectionIsOfNamesAndRanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o             model.ScanOptions
		rows, columns catalog.Ranges
	}{
		"none":          {model.ScanOptions{}, catalog.Ranges{model.All()}, catalog.Ranges{model.All()}},
		"empty slices":  {model.ScanOptions{Rows: []model.Range{}, Columns: []string{}, ColumnRanges: []model.Range{}}, catalog.Ranges{model.All()}, catalog.Ranges{model.All()}},
		"an empty row":  {model.ScanOptions{Rows: []model.Range{model.Between("b", "a")}}, nil, catalog.Ranges{model.All()}},
		"names":         {model.ScanOptions{Columns: []string{"b", "a", "b"}}, catalog.Ranges{model.All()}, catalog.Ranges{model.Row("a"), model.Row("b")}},
		"both":          {model.ScanOptions{Columns: []string{"b", "d"}, ColumnRanges: []model.Range{model.Between("a", "c")}}, catalog.Ranges{model.All()}, catalog.Ranges{model.Between("a", "c"), model.Row("d")}},
		"an empty one":  {model.ScanOptions{ColumnRanges: []model.Range{model.Between("b", "b")}}, catalog.Ranges{model.All()}, nil},
		"a name beside": {model.ScanOptions{Columns: []string{"a"}, ColumnRanges: []model.Range{model.Between("b", "b")}}, catalog.Ranges{model.All()}, catalog.Ranges{model.Row("a")}},
	} {
		if rows, columns := SelectedRows(c.o), SelectedColumns(c.o); !slices.Equal(rows, c.rows) || !slices.Equal(columns, c.columns) {
			t.Errorf("%s: rows %q and columns %q, want %q and %q", name, rows, columns, c.rows, c.columns)
		}
	}
}
