package settle_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A client closes while the low position of a stream that gets no more rows is on its way.
func TestAClientClosesWhileTheLastPositionOfAStreamIsOnItsWay(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testAClientClosesWhileTheLastPositionOfAStreamIsOnItsWay)
}

func testAClientClosesWhileTheLastPositionOfAStreamIsOnItsWay(t *testing.T) {
	w := newWorld(t)
	c, _ := w.client()
	e := &model.JournalEntry{}
	for i := range 1200 { // some 4.7 MiB of names: a stream of its own
		e.Rows = append(e.Rows, model.JournalName{Table: "t", Key: fmt.Sprintf("%04d%s", i, strings.Repeat("x", 4000))})
	}
	ts, err := c.Engine().Clock.Next(w.ctx)
	fixture.Must(t, err)
	e.StartTS = ts
	a, err := c.Engine().Journal.Append(w.ctx, e)
	fixture.Must(t, err)
	fixture.Must(t, a.Wait(w.ctx))
	hold := percolatortest.NewHold()
	w.FaultsOf(c).HandleJournal(func(r percolatortest.Request) percolatortest.Action {
		if strings.HasPrefix(r.Row, "\x41") && r.Sets("journal") {
			return hold
		}
		return percolatortest.Pass
	})
	c.Engine().Journal.Own.RolledBack(a) // settled
	hold.Wait(t, 1)
	fixture.Must(t, c.Close())
}
