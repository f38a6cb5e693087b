package repair_test

import (
	"slices"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A replica takes over that has the drop of a table and lacks, in another one, the roll forward of a
// lock whose primary was there. The record that decided is gone: the repair reports what it rolls
// back.
func TestRepairOfALockWhosePrimaryWasDroppedSince(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairOfALockWhosePrimaryWasDroppedSince)
}

func testRepairOfALockWhosePrimaryWasDroppedSince(t *testing.T) {
	s := newTorn(t)
	tx := fixture.MustBegin(t, s.ctx, s.dead())
	fixture.Must(t, tx.Set(u("a"), []byte("1")))
	fixture.Must(t, tx.Set(fixture.Cell("r", "c"), []byte("committed")))
	fixture.MustCommit(t, s.ctx, tx)
	var err error
	s.to, err = s.Oracle.Next(s.ctx)
	fixture.Must(t, err)
	putBack := s.save("t", "r")
	next := *s.Client.Schema()
	next.Tables = slices.DeleteFunc(slices.Clone(next.Tables), func(t percolator.Table) bool { return t.Name == "u" })
	_, err = s.admin.DropFromSchema(s.ctx, &next, admin.DropOptions{ClientOptions: s.Options()})
	fixture.Must(t, err)
	fixture.WantNow(t, s.ctx, s.Client, fixture.Cell("r", "c"), "committed")
	putBack()
	if r := s.repair(func(o *model.RepairOptions) { o.WithoutHold = true }); r.RolledBack+r.RolledForward != 1 || r.Found != 1 {
		t.Errorf("%d locks rolled back, %d forward, and %d findings: a committed write is lost, and the repair reports nothing", r.RolledBack, r.RolledForward, r.Found)
	}
	s.audit()
}
