package repair_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestUndoneCommitOfAnEntryThatIsAppendedAgainErasesNothing: a repair undoes a commit of which the
// client has yet to tell. Afterwards the client appends its entry again, as an observer is behind
// in one of its rows, and tells beside it (J13).
func TestUndoneCommitOfAnEntryThatIsAppendedAgainErasesNothing(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		s := newTorn(t, fixture.ShortRetention)
		s.ctx = context.Background() // the client waits for minutes
		fixture.Put(t, s.ctx, s.Client, "r", "seen", "before")
		s.pay(s.Client, "6", "4")
		s.now()
		c := s.NewClient(fixture.ShortRetention)
		hold := percolatortest.NewHold()
		s.FaultsOf(c).Handle(fixture.AtMost(1, func(r percolatortest.Request) bool { return r.Method == percolatortest.MutateRows && r.Table == "u" }, hold))
		tx := fixture.MustBegin(t, s.ctx, c)
		fixture.Must(t, tx.Set(fixture.Cell("r", "seen"), []byte("undone")))
		fixture.Must(t, tx.Set(u("a"), []byte("5")))
		fixture.Must(t, tx.Set(u("b"), []byte("5")))
		fixture.MustCommit(t, s.ctx, tx)
		behind := fixture.MustBegin(t, s.ctx, c) // in the same stream, before phase two is done
		fixture.Must(t, behind.Set(fixture.Cell("behind", "c"), nil))
		fixture.MustCommit(t, s.ctx, behind)
		hold.Release()
		fixture.Must(t, c.Flush(s.ctx))
		s.repair()
		s.wants("6", "4")
		time.Sleep(10 * time.Minute)
		fixture.Must(t, s.admin.ReleaseHold(s.ctx, s.hold))
		fixture.Sweep(t, s.ctx, s.Client, model.SweepConfig{})
		s.Clock.Advance(fixture.PastRetention)
		fixture.Collect(t, s.ctx, s.Client)
		s.wants("6", "4")
		s.audit()
	})
}
