package meta

import (
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/percolator/model"
)

// What a schema lacks, and has more, is said in so many words, up to a limit; what it leaves open
// is no difference.
func TestDriftIsSaidUpToALimit(t *testing.T) {
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
			`it lacks the table u, it lacks the observed column t/"a", it has the observed column t/"b", it lacks the index t/"i", it has the table v`},
		{&model.Schema{Tables: stored.Tables, Timing: model.Timing{MetaMaxAge: time.Minute}}, "timing changed"},
		{many, "it has the table more0, it has the table more1, it has the table more10, it has the table more2, it has the table more3, it has the table more4, it has the table more5, it has the table more6 and 3 more"},
	} {
		if got := drift(stored, c.next); got != c.want {
			t.Errorf("it says %q, want %q", got, c.want)
		}
		if same := catalog.SameButForJournal(stored, c.next); same != (c.want == "") {
			t.Errorf("%q: the same is %v", c.want, same)
		}
	}
}
