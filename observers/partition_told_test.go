package observers

import (
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// A worker of several queues, whose columns are too many to be named, is known to take them.
func TestWorkerOfManyQueues(t *testing.T) {
	t.Parallel()
	schema := &percolator.Schema{Tables: []percolator.Table{{Name: "docs", Observed: []string{"in"}, Schema: "search"}}}
	var registered []*observer
	for q := range 4 {
		table := percolator.Table{Name: fmt.Sprint("queue-", q)}
		for part := range 16 {
			column := fmt.Sprintf("fold-%03x", part)
			table.Weak = append(table.Weak, column)
			registered = append(registered, &observer{name: fmt.Sprint(q, part), table: table.Name, column: column})
		}
		schema.Tables = append(schema.Tables, table)
	}
	ofDocs := &observer{name: "docs", table: "docs", column: "in"}
	for name, test := range map[string]struct {
		observers []*observer
		want      int // findings
	}{
		"all":      {append(registered, ofDocs), 0},
		"one team": {registered, 1}, // nobody takes docs
	} {
		cov, err := cover(schema, test.observers, nil)
		if err != nil {
			t.Fatal(err)
		}
		w := model.WorkerInfo{Name: "w", Takes: cov.registeredColumns(), Columns: cov.fingerprint()}
		if w.Takes != nil {
			t.Error("there is room for the names of all columns: use more queues")
		}
		if found := health.Untaken(schema, []model.WorkerInfo{w}); len(found) != test.want || test.want > 0 && found[0].Level != health.Warning {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
