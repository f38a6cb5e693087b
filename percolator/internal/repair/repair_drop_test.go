package repair_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

var errInterrupted = errors.New("interrupted")

// drop drops the table u; whole: to its end.
func (s *torn) drop(whole bool) {
	s.Helper()
	next := *s.Client.Schema()
	next.Tables = slices.DeleteFunc(slices.Clone(next.Tables), func(t percolator.Table) bool { return t.Name == "u" })
	opts, want := admin.DropOptions{ClientOptions: s.Options()}, error(nil)
	if !whole {
		opts.Wait, want = func(context.Context, time.Duration) error { return errInterrupted }, errInterrupted
	}
	if _, err := s.admin.DropFromSchema(s.ctx, &next, opts); !errors.Is(err, want) {
		s.Fatal(err)
	}
}

// inTwoTables is a transaction of a client that dies behind the commit point, with its primary in
// u.
func (s *torn) inTwoTables(rows ...string) *percolator.Txn {
	s.Helper()
	tx := fixture.MustBegin(s, s.ctx, s.dead())
	fixture.Must(s, tx.Set(u("a"), []byte("committed")))
	for _, row := range rows {
		fixture.Must(s, tx.Set(fixture.Cell(row, "c"), []byte("committed")))
	}
	return tx
}

func (s *torn) present() {
	s.Helper()
	var err error
	s.to, err = s.Oracle.Next(s.ctx)
	fixture.Must(s, err)
}

func withoutHold(o *model.RepairOptions) { o.WithoutHold = true }

// A prewrite whose entry was never acknowledged outlives the table of its primary: whoever reads it
// shows that it is rolled back, and so does a repair (I26). What was notified before stays so.
func TestRepairOfALockWhosePrimaryWasDropped(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairOfALockWhosePrimaryWasDropped)
}

func testRepairOfALockWhosePrimaryWasDropped(t *testing.T) {
	s := newTorn(t)
	fixture.Put(t, s.ctx, s.Client, "r", "seen", "old")
	start, err := s.Oracle.Next(s.ctx)
	fixture.Must(t, err)
	l := layout.LockRecord{StartTS: start, Kind: layout.KindPut, Primary: u("a"), Placed: start, TTL: time.Second}
	s.drop(true)
	fixture.Plant(t, s.ctx, s.Env, "t", "r", "lock", "seen", cellTime(start), string(l.Encode()))
	for held, err := range s.admin.ListLocks(s.ctx, "t", percolator.Row("r"), admin.LockOptions{}) {
		if fixture.Must(t, err); held.State != admin.LockStateRolledBack {
			t.Errorf("it is listed as %+v", held)
		}
	}
	s.now()
	if r := s.repair(); r.RolledBack != 1 || r.Found != 0 || r.Audited != 0 {
		t.Errorf("%+v", r)
	}
	fixture.WantNow(t, s.ctx, s.Client, fixture.Cell("r", "seen"), "old")
	if n := fixture.CellsOf(t, s.ctx, s.Env, "t", "notify"); n != 1 {
		t.Errorf("%d notifications", n)
	}
	s.audit()
}

// A replica takes over that has the drop of a table and lacks, in other rows, the roll forward of
// locks whose primary was there. The record that decided is gone: one in another row decides, and
// otherwise the repair reports what it rolls back.
func TestRepairOfALockWhosePrimaryWasDroppedSince(t *testing.T) {
	t.Parallel()
	for name, both := range map[string]bool{"a record elsewhere": false, "no record": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) { testRepairOfALockWhosePrimaryWasDroppedSince(t, both) })
		})
	}
}

func testRepairOfALockWhosePrimaryWasDroppedSince(t *testing.T, both bool) {
	s := newTorn(t)
	fixture.MustCommit(t, s.ctx, s.inTwoTables("r", "q"))
	s.present()
	putBack := []func(){s.save("t", "r"), s.save("t", "q")}
	s.drop(true)
	fixture.WantNow(t, s.ctx, s.Client, fixture.Cell("r", "c"), "committed")
	if putBack[0](); both {
		putBack[1]()
	}
	r := s.repair(withoutHold)
	if both && (r.RolledBack != 2 || r.Found != 2) || !both && (r.RolledForward != 1 || r.RolledBack != 0) {
		t.Errorf("%d locks rolled back, %d forward, and %d findings", r.RolledBack, r.RolledForward, r.Found)
	}
	want := "committed"
	if both {
		want = ""
	}
	for _, row := range []string{"r", "q"} {
		fixture.WantNow(t, s.ctx, s.Client, fixture.Cell(row, "c"), want)
	}
	s.audit()
}

// A drop that was interrupted leaves a table that decides locks elsewhere. A repair asks it, as the
// drop does later: what committed above the timestamp of the repair goes, and the rest stays.
func TestRepairBesideAnUnfinishedDrop(t *testing.T) {
	t.Parallel()
	for name, above := range map[string]bool{"committed below": false, "committed above": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) { testRepairBesideAnUnfinishedDrop(t, above) })
		})
	}
}

func testRepairBesideAnUnfinishedDrop(t *testing.T, above bool) {
	s := newTorn(t)
	tx, want := s.inTwoTables("r"), "committed"
	if above {
		s.present()
		want = ""
	}
	fixture.MustCommit(t, s.ctx, tx)
	if !above {
		s.present()
	}
	s.drop(false)
	for _, f := range s.repair(withoutHold).Findings {
		t.Errorf("finding: %+v", f)
	}
	s.drop(true)
	fixture.WantNow(t, s.ctx, s.Client, fixture.Cell("r", "c"), want)
	s.audit()
}

// A cut of percolator_meta may be older than the end of a drop, by which the table was deleted.
// What it decided is reported, and the repair ends.
func TestRepairWithoutATableThatIsBeingDropped(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairWithoutATableThatIsBeingDropped)
}

func testRepairWithoutATableThatIsBeingDropped(t *testing.T) {
	s := newTorn(t)
	fixture.MustCommit(t, s.ctx, s.inTwoTables("r"))
	s.present()
	s.drop(false)
	deleteTable, end, err := meta.TableDeleter(s.ctx, s.Project, s.Instance, s.Options())
	fixture.Must(t, err)
	defer func() { _ = end() }()
	fixture.Must(t, deleteTable(s.ctx, "u"))
	if r := s.repair(withoutHold); r.RolledBack != 1 || r.Found != 1 {
		t.Errorf("%d locks rolled back, %d findings", r.RolledBack, r.Found)
	}
}

// A drop whose last request was late ends beside a repair, which goes on.
func TestRepairBesideTheEndOfADrop(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		s := newTorn(t)
		s.pay(s.Client, "6", "4")
		s.drop(false)
		s.now()
		dropping, ended := s.NewClient(), new(atomic.Bool)
		s.repair(func(o *model.RepairOptions) {
			o.Progress = func(r model.RepairReport) {
				if r.Phase == model.RepairResolve && ended.CompareAndSwap(false, true) {
					fixture.Must(t, dropping.Engine().Meta.EndDrop(s.ctx, []string{"u"}, s.to))
					fixture.Must(t, fixture.ErrOf(s.Client.Engine().Meta.Refresh(s.ctx)))
				}
			}
		})
		if !ended.Load() {
			t.Error("the drop has not ended")
		}
	})
}
