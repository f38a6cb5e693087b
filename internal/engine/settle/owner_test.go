package settle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/settle"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

type txn = percolator.Txn

// However much of its own is unsettled, a client looks at a bounded number of rows a second.
func TestOwnersBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.client()
	for n := range 40 { // 12,000 rows
		e := &model.JournalEntry{Primary: fixture.Cell("p", "plain")}
		for i := range 300 {
			e.Rows = append(e.Rows, model.JournalName{Table: "t", Key: fmt.Sprintf("%d-%d", n, i), Observed: true})
		}
		w.appendEntries(c, e)
	}
	w.Clock.Advance(time.Hour) // they are dead
	w.FaultsOf(c).Forget()
	o := settle.NewOwner(c.Engine().Looker, c.Engine().Journal)
	o.RunOnce(w.ctx, time.Hour)
	// The look that exceeds the budget goes into debt: the next turn comes too soon.
	n := w.rowsRead(c)
	if most := journal.OwnerRows + 1300; n < 1200 || n > most {
		t.Errorf("%d rows in a turn, want at most %d", n, most)
	}
	if o.RunOnce(w.ctx, time.Hour); w.rowsRead(c) != n {
		t.Errorf("%d more rows in a turn at once", w.rowsRead(c)-n)
	}
}

// A client that appends more than OwnerRows rows a second, which nobody else deals with, looks at
// more than it appends, and at no more than OwnerRows afterwards.
func TestOwnersPaceFollowsItsClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.client()
	o := settle.NewOwner(c.Engine().Looker, c.Engine().Journal)
	e := &model.JournalEntry{Primary: fixture.Cell("p", "plain")}
	const each = 2 * journal.OwnerRows
	for i := range each {
		e.Rows = append(e.Rows, model.JournalName{Table: "t", Key: row(i), Observed: true})
	}
	pace := 0.0
	for second := range 30 {
		next := *e
		w.appendEntries(c, &next)
		if pace = o.Follow(); second >= 10 && pace < each || pace > journal.OwnerRows+2*each {
			t.Errorf("%.0f rows a second after %d s, while %d are appended", pace, second+1, each)
		}
	}
	for range 60 {
		pace = o.Follow()
	}
	if pace < journal.OwnerRows || pace > 1.1*journal.OwnerRows {
		t.Errorf("%.0f rows a second long after", pace)
	}
}

// An entry that nothing in this process settles is looked at, and the low position moves.
func TestOwnerSettlesWhatPhaseTwoLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, session := w.client()
	w.appendEntries(c, &model.JournalEntry{Primary: fixture.Cell("p", "plain"), Rows: []model.JournalName{{Table: "t", Key: "p"}, {Table: "t", Key: "q", Observed: true}}})
	if w.settled(session) {
		t.Fatal("settled before anybody looked")
	}
	w.Clock.Advance(time.Hour)
	o := settle.NewOwner(c.Engine().Looker, c.Engine().Journal)
	o.RunOnce(w.ctx, time.Hour)
	o.Close(w.ctx)
	if !w.settled(session) {
		t.Error("it is not settled")
	}
}
