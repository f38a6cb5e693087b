package repair_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

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
	tx := fixture.MustBegin(t, s.ctx, s.dead())
	fixture.Must(t, tx.Set(u("a"), []byte("1")))
	fixture.Must(t, tx.Set(fixture.Cell("r", "c"), []byte("committed")))
	to := func() (err error) { s.to, err = s.Oracle.Next(s.ctx); return err }
	if above {
		fixture.Must(t, to())
	}
	fixture.MustCommit(t, s.ctx, tx)
	if !above {
		fixture.Must(t, to())
	}
	next := *s.Client.Schema()
	next.Tables = slices.DeleteFunc(slices.Clone(next.Tables), func(t percolator.Table) bool { return t.Name == "u" })
	drop := admin.DropOptions{ClientOptions: s.Options()}
	interrupted := errors.New("interrupted")
	stopped := drop
	stopped.Wait = func(context.Context, time.Duration) error { return interrupted }
	_, err := s.admin.DropFromSchema(s.ctx, &next, stopped)
	fixture.WantErr(t, err, interrupted)
	r := s.repair(func(o *model.RepairOptions) { o.WithoutHold = true })
	for _, f := range r.Findings {
		t.Errorf("finding: %+v", f)
	}
	_, err = s.admin.DropFromSchema(s.ctx, &next, drop)
	fixture.Must(t, err)
	want := "committed"
	if above {
		want = ""
	}
	fixture.WantNow(t, s.ctx, s.Client, fixture.Cell("r", "c"), want)
	s.audit()
}

// A cut of percolator_meta may be older than the end of a drop, by which the table was deleted. What
// it decided is reported, and the repair ends.
func TestRepairWithoutATableThatIsBeingDropped(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairWithoutATableThatIsBeingDropped)
}

func testRepairWithoutATableThatIsBeingDropped(t *testing.T) {
	s := newTorn(t)
	tx := fixture.MustBegin(t, s.ctx, s.dead())
	fixture.Must(t, tx.Set(u("a"), []byte("1")))
	fixture.Must(t, tx.Set(fixture.Cell("r", "c"), []byte("committed")))
	fixture.MustCommit(t, s.ctx, tx)
	var err error
	s.to, err = s.Oracle.Next(s.ctx)
	fixture.Must(t, err)
	next := *s.Client.Schema()
	next.Tables = slices.DeleteFunc(slices.Clone(next.Tables), func(t percolator.Table) bool { return t.Name == "u" })
	interrupted := errors.New("interrupted")
	_, err = s.admin.DropFromSchema(s.ctx, &next, admin.DropOptions{Wait: func(context.Context, time.Duration) error { return interrupted }})
	fixture.WantErr(t, err, interrupted)
	deleteTable, end, err := meta.TableDeleter(s.ctx, s.Project, s.Instance, s.Options())
	fixture.Must(t, err)
	defer func() { _ = end() }()
	fixture.Must(t, deleteTable(s.ctx, "u"))
	if r := s.repair(func(o *model.RepairOptions) { o.WithoutHold = true }); r.RolledBack != 1 || r.Found != 1 {
		t.Errorf("%d locks rolled back, %d findings", r.RolledBack, r.Found)
	}
}
