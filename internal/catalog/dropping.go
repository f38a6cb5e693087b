package catalog

import (
	"slices"

	"github.com/gopercolator/percolator/percolator/model"
)

// A table that is being dropped is one that only the engine knows: no caller may name it, no column
// of it notifies, and locks that name a primary in it are resolved (I26). It stands in the stored
// schema under the names of its Bigtable tables, and not among the tables: what programs declare
// does not have it.

// WithDropping is s with these Bigtable tables as the ones that are being dropped.
func WithDropping(s *model.Schema, names []string) *model.Schema {
	out := *s
	out.Dropping = slices.Clone(names)
	return &out
}
