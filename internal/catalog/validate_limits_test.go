package catalog

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/percolator/model"
)

// A schema takes as many tables as an instance of Bigtable has, those of indexes and Percolator's
// among them.
func TestTablesOfASchema(t *testing.T) {
	t.Parallel()
	s := &model.Schema{Tables: []model.Table{{Name: "indexed", Indexes: []model.Index{{Name: "a", Column: "a"}, {Name: "b", Column: "b"}}}}}
	for i := range model.MaxTables - 5 {
		s.Tables = append(s.Tables, model.Table{Name: fmt.Sprint("t", i)})
	}
	if err := Validate(s); err != nil {
		t.Error(err)
	}
	s.Tables[0].Indexes = append(s.Tables[0].Indexes, model.Index{Name: "c", Column: "c"})
	if err := Validate(s); !errors.Is(err, model.ErrTooLarge) {
		t.Errorf("one more: %v", err)
	}
}
