package change

import (
	"strings"
	"testing"

	"github.com/gopercolator/percolator/percolator/model"
)

// A queue that gets more parts is one line of a plan.
func TestAPlanHasAQueueAsOneLine(t *testing.T) {
	t.Parallel()
	change := func(kind model.SchemaChangeKind, table, name string) model.SchemaChange {
		return model.SchemaChange{Kind: kind, Table: table, Name: name}
	}
	plan := model.SchemaPlan{Changes: []model.SchemaChange{
		change(model.ObservedAdded, "t", "a-000"), change(model.ObservedAdded, "t", "a-001"),
		change(model.WeakAdded, "t", "fold-010"), change(model.WeakAdded, "t", "fold-011"), change(model.WeakAdded, "t", "fold-013"),
		change(model.WeakRemoved, "t", "fold-014"), change(model.WeakRemoved, "u", "fold-015"), change(model.WeakRemoved, "u", "fold-016"),
	}}
	var refused, dropped strings.Builder
	printPlan(&refused, plan)
	printDrop(&dropped, plan)
	want := `+ table t: observed column a-000
+ table t: observed column a-001
+ table t: weak column fold-010…011 (2)
+ table t: weak column fold-013
- table t: weak column fold-014  (refused)
- table u: weak column fold-015…016 (2)  (refused)
`
	if got := refused.String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got, want := dropped.String(), strings.ReplaceAll(want, "  (refused)", ""); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
