package model

import (
	"errors"
	"fmt"
	"testing"
)

// A schema takes as many tables as an instance of Bigtable has, those of indexes and Percolator's
// among them.
func TestTablesOfASchema(t *testing.T) {
	t.Parallel()
	s := &Schema{Tables: []Table{{Name: "indexed", Indexes: []Index{{Name: "a", Column: "a"}, {Name: "b", Column: "b"}}}}}
	for i := range MaxTables - 5 {
		s.Tables = append(s.Tables, Table{Name: fmt.Sprint("t", i)})
	}
	if err := Validate(s); err != nil {
		t.Error(err)
	}
	s.Tables[0].Indexes = append(s.Tables[0].Indexes, Index{Name: "c", Column: "c"})
	if err := Validate(s); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one more: %v", err)
	}
}
