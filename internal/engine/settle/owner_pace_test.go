package settle_test

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/settle"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
)

// Turns that take long, because looks are slow, do not make the client's pace look faster than it
// is: the budget is of rows a second.
func TestOwnersPaceGoesByTimeNotByTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.client()
	o := settle.NewOwner(c.Engine().Looker, c.Engine().Journal)
	e := &model.JournalEntry{Primary: fixture.Cell("p", "plain")}
	const each, turn = 2 * journal.OwnerRows, 10 * time.Second // so 400 rows a second
	for i := range each {
		e.Rows = append(e.Rows, model.JournalName{Table: "t", Key: row(i), Observed: true})
	}
	for n := range 20 {
		next := *e
		w.appendEntries(c, &next)
		pace := o.FollowAt(time.Duration(n) * turn)
		if most := float64(journal.OwnerRows + 3*each/int(turn.Seconds())); n == 19 && pace > most {
			t.Fatalf("%.0f rows a second after %d turns of %v, in which %d are appended: want at most %.0f", pace, n+1, turn, each, most)
		}
	}
}
