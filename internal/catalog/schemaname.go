package catalog

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gopercolator/percolator/percolator/model"
)

// Beside is the schema of an instance in which s is applied: the tables of s, and those of stored
// that schemas with other names declare. Errors: ErrSchemaMismatch if another schema has a table of
// s. stored may be nil.
func Beside(stored, s *model.Schema) (*model.Schema, error) {
	out := *s
	out.Name, out.Tables = "", slices.Clone(s.Tables)
	ours := map[string]bool{s.Name: true}
	for i := range out.Tables {
		t := &out.Tables[i]
		t.Schema = cmp.Or(t.Schema, s.Name)
		ours[t.Schema] = true
	}
	if stored == nil {
		return &out, nil
	}
	for _, have := range stored.Tables {
		for _, t := range s.Tables {
			if name := cmp.Or(t.Schema, s.Name); t.Name == have.Name && name != have.Schema {
				return nil, fmt.Errorf("percolator: table %q: %w: %s has a table of that name, so %s cannot have one", t.Name, model.ErrSchemaMismatch, schemaText(have.Schema), schemaText(name))
			}
		}
		if !ours[have.Schema] {
			out.Tables = append(out.Tables, have)
		}
	}
	return &out, nil
}

func schemaText(name string) string {
	if name == "" {
		return "the unnamed schema"
	}
	return fmt.Sprintf("the schema %.64q", name)
}
