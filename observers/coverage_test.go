package observers

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/percolator"
)

func TestEveryObservedColumnNeedsAnObserver(t *testing.T) {
	t.Parallel()
	schema := &percolator.Schema{Tables: []percolator.Table{
		{Name: "a", Observed: []string{"x", "y"}, Weak: []string{"w"}}, {Name: "b", Observed: []string{"x"}}, {Name: "c"},
	}}
	observe := func(cols ...Column) []*observer {
		var list []*observer
		for i, c := range cols {
			list = append(list, &observer{name: fmt.Sprint(i), table: c.Table, column: c.Name})
		}
		return list
	}
	all := []Column{{"a", "x"}, {"a", "y"}, {"a", "w"}, {"b", "x"}}
	others := &percolator.Schema{Tables: append(schema.Tables, percolator.Table{Name: "e", Observed: []string{"x"}, Schema: "e"})}
	for _, observed := range [][]Column{{{"e", "x"}}, all, append(all, Column{"e", "x"})} {
		if cov, err := cover(others, observe(observed...), nil); err != nil || len(cov.taken) != len(observed) || len(cov.observed) != len(observed) {
			t.Errorf("%v: %v", observed, err)
		}
	}
	if _, err := cover(others, observe(append(all[1:], Column{"e", "x"})...), nil); !errors.Is(err, percolator.ErrSchemaMismatch) {
		t.Errorf("with observers in both, and not of a.x: %v", err)
	}
	for name, test := range map[string]struct {
		observers []*observer
		take      []Column
		want      string
	}{
		"all":                 {observe(all...), nil, ""},
		"one has no observer": {observe(all[1:]...), nil, `"x" of table "a"`},
		"most have none":      {observe(all[3]), nil, `3 columns of table "a" are observed and have no observer: "w", "x", "y" (`},
		"not observed":        {observe(append(all, Column{"c", "x"})...), nil, `"x" of table "c"`},
		"no such table":       {observe(append(all, Column{"d", "x"})...), nil, `no table "d"`},
		"some, as told":       {observe(all[0], all[2]), []Column{{"a", "w"}, {"a", "x"}}, ""},
		"more than told":      {observe(all...), []Column{{"a", "w"}}, ""},
		"told, no observer":   {observe(all[0]), []Column{{"a", "x"}, {"b", "x"}}, `"x" of table "b"`},
		"told, not observed":  {observe(all...), []Column{{"c", "x"}}, `"x" of table "c"`},
	} {
		cov, err := cover(schema, test.observers, test.take)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.want != "" && (!errors.Is(err, percolator.ErrSchemaMismatch) || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v", name, err)
		case len(cov.observed) != 4 || fmt.Sprint(cov.tables) != "[a b]":
			t.Errorf("%s: %v, %v", name, cov.observed, cov.tables)
		}
		if test.want == "" && test.take == nil && (len(cov.taken) != 4 || !cov.taken[Column{"a", "w"}].weak || cov.taken[Column{"a", "x"}].weak) {
			t.Errorf("%s: %v", name, cov.taken)
		}
		if name == "more than told" && (len(cov.taken) != 1 || len(cov.runners) != 1) {
			t.Errorf("%s: takes %d columns with %d observers", name, len(cov.taken), len(cov.runners))
		}
	}
}

// The columns of a queue are one line, of the first ones.
func TestColumnsOfAQueueWithoutObservers(t *testing.T) {
	t.Parallel()
	queue := percolator.Table{Name: "exports"}
	for _, n := range "01234567" {
		queue.Weak = append(queue.Weak, "export-00"+string(n))
	}
	_, err := cover(&percolator.Schema{Tables: []percolator.Table{queue}}, nil, nil)
	const want = `8 columns of table "exports" are observed and have no observer: "export-000", "export-001", "export-002", … (`
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, want %q in one line", err, want)
	}
}
