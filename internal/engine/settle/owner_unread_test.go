package settle_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/settle"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// beyondTheLimit is a client that may remember one transaction and has appended n, each in a row of
// its own that names so many rows. They are dead.
func (w *world) beyondTheLimit(n, names int) (c *percolator.Client, session string) {
	w.Helper()
	c, session = w.client()
	c.Engine().Journal.Own.Limit(1)
	for i := range n {
		e := &model.JournalEntry{Primary: fixture.Cell("p", "plain")}
		for j := range names {
			e.Rows = append(e.Rows, model.JournalName{Table: "t", Key: row(i*names + j), Observed: true})
		}
		w.appendEntries(c, e)
		synctest.Wait() // until the stream is idle, or the next would go to another
	}
	w.Clock.Advance(time.Hour)
	w.FaultsOf(c).Forget()
	return c, session
}

// journalReads is how many rows each read of the journal has asked for.
func (w *world) journalReads(c *percolator.Client) (rows []int) {
	for _, r := range w.FaultsOf(c).JournalRequests() {
		if r.Method == percolatortest.ReadRows {
			rows = append(rows, r.Rows)
		}
	}
	return rows
}

// Rows of the journal that a client does not remember are read many in one request, as far as a
// look goes by what they name.
func TestUnreadRowsAreReadTogether(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testUnreadRowsAreReadTogether)
}

func testUnreadRowsAreReadTogether(t *testing.T) {
	for _, c := range []struct {
		n, names int
		want     []int // rows that are asked for
	}{
		{300, 1, []int{256, 43}},
		{8, 400, []int{7, 5, 2}}, // a look ends with the row that exceeds 1,000 names
	} {
		w := newWorld(t)
		client, session := w.beyondTheLimit(c.n, c.names)
		o := settle.NewOwner(client.Engine().Looker, client.Engine().Journal)
		for later := time.Hour; !w.settled(session) && later < time.Hour+time.Minute; later += time.Second {
			o.RunOnce(w.ctx, later)
			o.Close(w.ctx)
		}
		if got := w.journalReads(client); !slices.Equal(got, c.want) || !w.settled(session) {
			t.Errorf("%d rows that name %d each: %v are read at once, want %v", c.n, c.names, got, c.want)
		}
	}
}

// A row of the journal that cannot be decoded is not settled (J4), and keeps none of those beside
// it.
func TestAnUnreadRowThatCannotBeDecodedKeepsNoOther(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testAnUnreadRowThatCannotBeDecodedKeepsNoOther)
}

func testAnUnreadRowThatCannotBeDecodedKeepsNoOther(t *testing.T) {
	w := newWorld(t)
	c, session := w.beyondTheLimit(20, 1)
	table := w.Store().Open(model.JournalTable)
	var keys []string
	fixture.Must(t, table.ReadRows(w.ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		if len(r["journal"]) == 1 && r["journal"][0].Column == "journal:batch" {
			keys = append(keys, r.Key())
		}
		return true
	}))
	mut := bigtable.NewMutation()
	mut.DeleteRow()
	fixture.Must(t, table.Apply(w.ctx, keys[9], mut))
	mut = bigtable.NewMutation()
	mut.Set("journal", "batch", 1000, []byte("nonsense"))
	fixture.Must(t, table.Apply(w.ctx, keys[9], mut))
	o := settle.NewOwner(c.Engine().Looker, c.Engine().Journal)
	for i := range 10 {
		o.RunOnce(w.ctx, time.Hour+time.Duration(i)*time.Second)
	}
	o.Close(w.ctx)
	streams, err := journal.Streams(w.ctx, w.Client.Engine().Store)
	fixture.Must(t, err)
	for _, st := range streams {
		if st.Session == session && st.Low != 10 {
			t.Errorf("low is %d, want 10", st.Low)
		}
	}
	if u := c.Engine().Journal.Own.Unsettled(); u.Rows != 1 {
		t.Errorf("%d rows are unsettled, want 1", u.Rows)
	}
}

// Rows that could not be read are not settled (J4): they are read later.
func TestUnreadRowsWhoseReadFailsAreReadLater(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testUnreadRowsWhoseReadFailsAreReadLater)
}

func testUnreadRowsWhoseReadFailsAreReadLater(t *testing.T) {
	w := newWorld(t)
	c, session := w.beyondTheLimit(20, 1)
	o := settle.NewOwner(c.Engine().Looker, c.Engine().Journal)
	w.FaultsOf(c).HandleJournal(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.ReadRows {
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	ctx, cancel := context.WithTimeout(w.ctx, lifetime/2)
	defer cancel()
	o.RunOnce(ctx, time.Hour)
	if reads := len(w.journalReads(c)); reads == 0 {
		t.Fatal("nothing was read")
	}
	if u := c.Engine().Journal.Own.Unsettled(); u.Rows < 19 {
		t.Errorf("%d rows are unsettled after a read that has failed, want 19", u.Rows)
	}
	w.FaultsOf(c).HandleJournal(nil)
	for i := range 3 {
		o.RunOnce(w.ctx, 2*time.Hour+time.Duration(i)*time.Minute)
	}
	o.Close(w.ctx)
	if !w.settled(session) {
		t.Error("they are not settled")
	}
}

// What a look at unread rows has found is known once they are remembered: gauges tell it, and a
// hurry is for it.
func TestWhatIsFoundInUnreadRowsIsKnown(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testWhatIsFoundInUnreadRowsIsKnown)
}

func testWhatIsFoundInUnreadRowsIsKnown(t *testing.T) {
	w := newWorld(t)
	c, _ := w.client()
	own := c.Engine().Journal.Own
	own.Limit(0)
	fixture.Put(t, w.ctx, c, "r", "seen", "v") // which nobody observes
	fixture.Must(t, c.Flush(w.ctx))
	own.Limit(1)
	settle.NewOwner(c.Engine().Looker, c.Engine().Journal).RunOnce(w.ctx, journal.FirstLook+time.Second)
	if u := own.Unsettled(); u.Rows != 1 || u.Notified == 0 || u.Oldest == 0 {
		t.Errorf("unsettled are %+v", u)
	}
}
