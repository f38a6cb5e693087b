package percolator_test

import (
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
)

// Messages name table, row and column; a table whose name contains a dot is a table like any other.
func TestMessagesNameTheRow(t *testing.T) {
	t.Parallel()
	s := &percolator.Schema{Tables: []percolator.Table{{Name: "web.pages"}}}
	if err := percolator.ValidateSchema(s); err != nil {
		fixture.WantErr(t, err, percolator.ErrInvalidArgument)
		return
	}
	if got := (percolator.Cell{Table: "web.pages", Row: "example.org", Column: "c"}).String(); !strings.Contains(got, "example.org") {
		t.Errorf("the cell is called %s", got)
	}
}
