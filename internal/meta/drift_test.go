package meta

import (
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/model"
)

// What a schema lacks, and has more, is said in so many words, up to a limit; what it leaves open
// is no difference.
func TestDrift(t *testing.T) {
	t.Parallel()
	stored := &model.Schema{
		Tables: []model.Table{{Name: "t", Observed: []string{"a"}, Indexes: []model.Index{{Name: "i", Column: "c"}}}, {Name: "u"}},
		Timing: model.Timing{MetaMaxAge: time.Second},
	}
	many := &model.Schema{Tables: stored.Tables}
	for i := range mostDrift + 3 {
		many.Tables = append(many.Tables[:len(many.Tables):len(many.Tables)], model.Table{Name: fmt.Sprint("more", i)})
	}
	for _, c := range []struct {
		next *model.Schema
		want string
	}{
		{&model.Schema{Tables: stored.Tables, DisableJournal: true}, ""},
		{&model.Schema{Tables: []model.Table{{Name: "t", Observed: []string{"b"}}, {Name: "v"}}},
			`table removed: u, observed column removed: t/"a", observed column added: t/"b", index removed: t/"i", table added: v`},
		{&model.Schema{Tables: stored.Tables, Timing: model.Timing{MetaMaxAge: time.Minute}}, "timing changed"},
		{many, "table added: more0, table added: more1, table added: more10, table added: more2, table added: more3, table added: more4, table added: more5, table added: more6 and 3 more"},
	} {
		if got := drift(stored, c.next); got != c.want {
			t.Errorf("it says %q, want %q", got, c.want)
		}
		if same := model.SameButForJournal(stored, c.next); same != (c.want == "") {
			t.Errorf("%q: the same is %v", c.want, same)
		}
	}
}
