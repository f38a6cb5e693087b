package settle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/internal/journal"
	"github.com/gopercolator/percolator/internal/settle"
	"github.com/gopercolator/percolator/percolator"
)

type txn = percolator.Txn

// However much of its own is unsettled, a client looks at a bounded number of rows a second.
func TestOwnersBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.client()
	for n := range 40 { // 12,000 rows
		e := &journal.Entry{Primary: fixture.Cell("p", "plain")}
		for i := range 300 {
			e.Rows = append(e.Rows, journal.Row{Table: "t", Key: fmt.Sprintf("%d-%d", n, i), Observed: true})
		}
		w.appendEntries(c, e)
	}
	w.Clock.Advance(time.Hour) // they are dead
	w.FaultsOf(c).Forget()
	o := settle.NewOwner(c.Engine().Looker, c.Engine().Journal)
	o.Turn(w.ctx, time.Hour)
	// The look that exceeds the budget goes into debt: the next turn comes too soon.
	n := w.rowsRead(c)
	if most := settle.OwnerRows + 1300; n < 1200 || n > most {
		t.Errorf("%d rows in a turn, want at most %d", n, most)
	}
	if o.Turn(w.ctx, time.Hour); w.rowsRead(c) != n {
		t.Errorf("%d more rows in a turn at once", w.rowsRead(c)-n)
	}
}

// An entry that nothing in this process settles is looked at, and the low position moves.
func TestOwnerSettlesWhatPhaseTwoLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, session := w.client()
	w.appendEntries(c, &journal.Entry{Primary: fixture.Cell("p", "plain"), Rows: []journal.Row{{Table: "t", Key: "p"}, {Table: "t", Key: "q", Observed: true}}})
	if w.settled(session) {
		t.Fatal("settled before anybody looked")
	}
	w.Clock.Advance(time.Hour)
	o := settle.NewOwner(c.Engine().Looker, c.Engine().Journal)
	o.Turn(w.ctx, time.Hour)
	o.Close(w.ctx)
	if !w.settled(session) {
		t.Error("it is not settled")
	}
}
