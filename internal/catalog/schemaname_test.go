package catalog

import (
	"errors"
	"slices"
	"testing"

	"github.com/gopercolator/percolator/percolator/model"
)

// TestSchemasTakeNoTablesOfOthers: what a schema has beside those of other names, and that it takes
// no table of them.
func TestSchemasTakeNoTablesOfOthers(t *testing.T) {
	t.Parallel()
	of := func(schema string, tables ...string) (out []model.Table) {
		for _, name := range tables {
			out = append(out, model.Table{Name: name, Schema: schema})
		}
		return out
	}
	stored := &model.Schema{Tables: slices.Concat(of("", "t"), of("orders", "order", "stock"), of("search", "page"))}
	for name, c := range map[string]struct {
		apply *model.Schema
		want  []model.Table // nil: it is refused
	}{
		"a new name":                    {&model.Schema{Name: "more", Tables: of("", "x")}, slices.Concat(of("more", "x"), stored.Tables)},
		"a table less":                  {&model.Schema{Name: "orders", Tables: of("", "order")}, slices.Concat(of("orders", "order"), of("", "t"), of("search", "page"))},
		"no table":                      {&model.Schema{Name: "orders"}, slices.Concat(of("", "t"), of("search", "page"))},
		"no name":                       {&model.Schema{Tables: of("", "t", "u")}, slices.Concat(of("", "t", "u"), of("orders", "order", "stock"), of("search", "page"))},
		"no name, and no table":         {&model.Schema{}, slices.Concat(of("orders", "order", "stock"), of("search", "page"))},
		"tables of two names":           {&model.Schema{Tables: slices.Concat(of("", "t"), of("search", "page", "site"))}, slices.Concat(of("", "t"), of("search", "page", "site"), of("orders", "order", "stock"))},
		"all that is stored":            {stored, stored.Tables},
		"a table of another name":       {&model.Schema{Name: "orders", Tables: of("", "order", "page")}, nil},
		"a table of no name":            {&model.Schema{Name: "orders", Tables: of("", "t")}, nil},
		"a table of a name, and no own": {&model.Schema{Tables: of("", "t", "order")}, nil},
		"a table that changes its name": {&model.Schema{Name: "orders", Tables: of("search", "order")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Beside(stored, c.apply)
			if c.want == nil {
				if !errors.Is(err, model.ErrSchemaMismatch) {
					t.Errorf("got %+v, %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := EncodeSchema(&model.Schema{Tables: c.want})
			if text := EncodeSchema(got); string(text) != string(want) {
				t.Errorf("got  %s\nwant %s", text, want)
			}
		})
	}
}

// TestASchemaWithANameHasItsOwnTables: what drops the tables that a schema lacks would drop those
// of each name in it.
func TestASchemaWithANameHasItsOwnTables(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]bool{"": false, "orders": false, "search": true} {
		s := &model.Schema{Name: "orders", Tables: []model.Table{{Name: "order"}, {Name: "x", Schema: name}}}
		if err := Validate(s); errors.Is(err, model.ErrInvalidArgument) != wrong {
			t.Errorf("a table of %q: %v", name, err)
		}
	}
}
