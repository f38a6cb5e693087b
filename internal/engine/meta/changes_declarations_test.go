package meta

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
)

// Columns can be declared, and bytes become another type; all else would change what stored values
// mean, and is refused.
func TestDeclarationChanges(t *testing.T) {
	t.Parallel()
	columns := func(pairs ...string) (list []model.ColumnSchema) {
		for _, p := range pairs {
			name, typ, _ := strings.Cut(p, " ")
			list = append(list, model.ColumnSchema{Name: name, Type: model.Type(typ)})
		}
		return list
	}
	for name, c := range map[string]struct {
		old, next []model.ColumnSchema
		want      string // what changes, and what of it is refused
	}{
		"nothing":                         {columns("a int64", "b bytes"), columns("b", "a int64"), ""},
		"a table is declared":             {nil, columns("a int64", "b"), "column declared a, column declared b"},
		"one more":                        {columns("a"), columns("a", "b int64"), "column declared b"},
		"bytes become another type":       {columns("a bytes"), columns("a int64"), "column type changed a"},
		"another type":                    {columns("a int64"), columns("a ordered_int64"), "column type changed a refused"},
		"a type becomes bytes":            {columns("a int64"), columns("a"), "column type changed a refused"},
		"one less":                        {columns("a", "b"), columns("b"), "column declaration removed a refused"},
		"none any more":                   {columns("a"), nil, "column declaration removed a refused"},
		"one of a family gets its type":   {columns("a* int64"), columns("a* int64", "ab int64"), "column declared ab"},
		"one of a family gets another":    {columns("a* int64"), columns("a* int64", "ab json"), "column declared ab refused"},
		"one of a family of bytes":        {columns("a* bytes"), columns("a* bytes", "ab json"), "column declared ab"},
		"some of a family get another":    {columns("a* int64"), columns("a* int64", "ab* json"), "column declared ab* refused"},
		"a family around another":         {columns("ab* int64"), columns("a* json", "ab* int64"), "column declared a*"},
		"a column is no family":           {columns("a int64"), columns("a int64", "a* json"), "column declared a*"},
		"a prefix's own name is a column": {columns("a* int64"), columns("a* int64", "a json"), "column declared a refused"},
	} {
		table := func(list []model.ColumnSchema) *model.Schema {
			return &model.Schema{Tables: []model.Table{{Name: "t", Columns: list}}}
		}
		var got []string
		for _, ch := range schemaChanges(table(c.old), table(c.next)) {
			line := fmt.Sprint(ch.Kind, " ", ch.Name)
			if ch.Err() != nil {
				line += " refused"
			}
			got = append(got, line)
		}
		if line := strings.Join(got, ", "); line != c.want {
			t.Errorf("%s: %s; want %s", name, line, c.want)
		}
		if err := covers(table(c.next), table(c.old)); (err != nil) != strings.Contains(c.want, "refused") {
			t.Errorf("%s: covers: %v", name, err)
		}
	}
	old := &model.Schema{Tables: []model.Table{{Name: "t", TTL: time.Hour, Columns: []model.ColumnSchema{{Name: "a"}, {Name: "b", TTL: time.Hour}}}}}
	next := &model.Schema{Tables: []model.Table{{Name: "t", Columns: []model.ColumnSchema{{Name: "a", TTL: time.Minute}, {Name: "b", TTL: time.Hour}}}}}
	if got := schemaChanges(old, next); len(got) != 2 || got[0].Kind != model.TTLChanged || got[0].Name != "" || got[0].Was.TTL != time.Hour || got[1].Name != "a" || got[1].Column.TTL != time.Minute {
		t.Errorf("the changes of TTLs are %+v", got)
	}
	told := &model.Schema{Tables: []model.Table{{Name: "t", Columns: []model.ColumnSchema{{Name: "a", TTL: time.Minute}, {Name: "b", TTL: time.Hour, NotifyExpired: true}}}}}
	if got := schemaChanges(next, told); len(got) != 1 || got[0].Kind != model.TTLChanged || got[0].Name != "b" || !got[0].Column.NotifyExpired {
		t.Errorf("the changes of who hears are %+v", got)
	}
}
