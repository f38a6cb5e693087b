package settle_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/settle"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// newHangingWorld is a world with tables t and u, whose requests live for the default 30 s: longer
// than a look.
func newHangingWorld(t *testing.T) *world {
	t.Helper()
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t", Observed: []string{"seen"}, Weak: []string{"poke"}}, {Name: "u"}}})
	env.Clock.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	t.Cleanup(cancel)
	return &world{TB: t, Env: env, ctx: ctx}
}

// hang keeps back what a client reads of table u; n counts.
func (w *world) hang(c *percolator.Client) (n *atomic.Int64) {
	n = new(atomic.Int64)
	hold := percolatortest.NewHold()
	w.Cleanup(hold.Drop)
	w.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Table == "u" {
			n.Add(1)
			return hold
		}
		return percolatortest.Pass
	})
	return n
}

// One row that does not answer, of a tablet that is moving perhaps, keeps no other entry: what a
// client that died has left elsewhere is resolved and found.
func TestARowThatDoesNotAnswerKeepsNoOtherEntry(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testARowThatDoesNotAnswerKeepsNoOtherEntry)
}

func testARowThatDoesNotAnswerKeepsNoOtherEntry(t *testing.T) {
	w := newHangingWorld(t)
	stuck := model.Cell{Table: "u", Row: "stuck", Column: "c"}
	dying, session := w.client()
	w.appendEntries(dying, &model.JournalEntry{Primary: stuck, Rows: []model.JournalName{{Table: "u", Key: "stuck"}}})
	w.die(dying, session, "lost")
	c, a, found := w.adopter()
	hung := w.hang(c)
	var turns atomic.Int64
	started := time.Now()
	for time.Since(started) < 25*time.Second && found.of("lost") == 0 {
		if err := a.RunOnce(w.ctx); err != nil {
			t.Logf("%v: turn: %v", time.Since(started), err)
		}
		turns.Add(1)
		time.Sleep(100 * time.Millisecond)
	}
	if found.of("lost") == 0 {
		t.Errorf("%d requests for one row got no answer, and after %d turns in %v another row's notification is not found", hung.Load(), turns.Load(), time.Since(started))
	}
}

// The same of the owner, which looks at what phase two of its own has left.
func TestARowThatDoesNotAnswerKeepsNoOtherOwnEntry(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testARowThatDoesNotAnswerKeepsNoOtherOwnEntry)
}

func testARowThatDoesNotAnswerKeepsNoOtherOwnEntry(t *testing.T) {
	w := newHangingWorld(t)
	c, _ := w.client()
	found := w.finds(c)
	stuck := model.Cell{Table: "u", Row: "stuck", Column: "c"}
	w.appendEntries(c, &model.JournalEntry{Primary: stuck, Rows: []model.JournalName{{Table: "u", Key: "stuck"}}})
	fixture.Must(t, fixture.ErrOf(c.Update(w.ctx, func(_ context.Context, tx *txn) error { return tx.Set(fixture.Cell("lost", "seen"), []byte("1")) })))
	hung := w.hang(c)
	o := settle.NewOwner(c.Engine().Looker, c.Engine().Journal)
	started := time.Now()
	for n := 1; time.Since(started) < 25*time.Second && found.of("lost") == 0; n++ {
		o.RunOnce(w.ctx, time.Duration(n)*time.Hour)
	}
	if found.of("lost") == 0 {
		t.Errorf("%d requests for one row got no answer, and after %v another row's notification is not found", hung.Load(), time.Since(started))
	}
}

// Looks that such rows hold up keep a turn neither from the rows behind them nor from moving the
// low position.
func TestRowsThatDoNotAnswerKeepNoTurn(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRowsThatDoNotAnswerKeepNoTurn)
}

func testRowsThatDoNotAnswerKeepNoTurn(t *testing.T) {
	w := newHangingWorld(t)
	dying, session := w.client()
	w.appendEntries(dying, &model.JournalEntry{Primary: fixture.Cell("settled", "plain"), Rows: []model.JournalName{{Table: "t", Key: "settled"}}})
	for n := range 4 {
		e := &model.JournalEntry{Primary: model.Cell{Table: "u", Row: "stuck", Column: "c"}}
		for i := range 600 {
			e.Rows = append(e.Rows, model.JournalName{Table: "t", Key: fmt.Sprintf("%d-%d", n, i)})
		}
		w.appendEntries(dying, e) // a look each
	}
	w.die(dying, session, "lost")
	c, a, found := w.adopter()
	w.hang(c)
	started := time.Now()
	for turn := 0; turn < 3 && found.of("lost") == 0; turn++ { // one rolls forward, another finds
		_ = a.RunOnce(w.ctx)
	}
	if found.of("lost") == 0 {
		t.Errorf("the row behind them is not found in %v", time.Since(started))
	}
	streams, err := journal.Streams(w.ctx, w.Client.Engine().Store)
	fixture.Must(t, err)
	if !slices.ContainsFunc(streams, func(s journal.Stream) bool { return s.Session == session && s.Low > 1 }) {
		t.Errorf("the low position has not moved in %v", time.Since(started))
	}
}

// One such row among many that one request reads leaves few of the others unread.
func TestARowThatDoesNotAnswerLeavesFewUnread(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testARowThatDoesNotAnswerLeavesFewUnread)
}

func testARowThatDoesNotAnswerLeavesFewUnread(t *testing.T) {
	w := newHangingWorld(t)
	dying, session := w.client()
	var rows []string
	for i := range 64 {
		rows = append(rows, row(i))
	}
	w.die(dying, session, rows...)
	c, a, _ := w.adopter()
	stuck := func(key []byte) bool { return string(key) == rows[5] }
	hold := percolatortest.NewHold()
	t.Cleanup(hold.Drop)
	w.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.ReadRows && r.Table == "t" && slices.ContainsFunc(r.Message.(*btpb.ReadRowsRequest).GetRows().GetRowKeys(), stuck) {
			return hold
		}
		return percolatortest.Pass
	})
	_ = a.RunOnce(w.ctx)
	if n := fixture.CellsOf(t, w.ctx, w.Env, "t", "lock"); n == 0 || n > len(rows)/8+1 {
		t.Errorf("%d locks are left", n)
	}
}
