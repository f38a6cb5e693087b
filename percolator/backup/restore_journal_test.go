package backup_test

import (
	"testing"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A restore ends with an empty journal that is building, since no entry leads to what it has
// written. Until one sweep has ended nobody relies on the journal; then it leads to what observers
// still have to do.
func TestRestoreHasTheJournalBuilt(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRestoreHasTheJournalBuilt)
}

func testRestoreHasTheJournalBuilt(t *testing.T) {
	source := percolatortest.New(t, observed)
	set(t, source.Client, values{cell("docs", "pending", "in"): "1", cell("docs", "plain", "other"): "2"})
	ctx, store := testContext(t), newMemory()
	run(t, source.Client, store, small)
	g := newTarget(t, source)
	c := g.client(store)
	_, err := backup.Restore(ctx, c, store, backup.RestoreOptions{})
	must(t, err)

	stored := func() model.JournalState {
		t.Helper()
		s, err := admin.Instance{Project: source.Project, ID: g.instance, Options: source.Options()}.ReadSchema(ctx)
		must(t, err)
		return s.Journal
	}
	tools := admin.New(c)
	streams, _, err := tools.JournalStreams(ctx, 10)
	must(t, err)
	if len(streams) != 0 || stored().Building == "" || c.Engine().Meta.ByJournal() {
		t.Errorf("after the restore: %d streams, %+v, relied on: %v", len(streams), stored(), c.Engine().Meta.ByJournal())
	}
	if found, _, err := tools.EntriesOf(ctx, "docs", "pending"); err != nil || len(found) > 0 {
		t.Errorf("%+v names the row, %v", found, err)
	}

	sweeper, err := tools.NewSweeper(model.SweepConfig{})
	must(t, err)
	done, err := sweeper.Sweep(ctx)
	must(t, err)
	if done.Building == "" || done.Phase != model.SweepDone || stored().Building != "" || !c.Engine().Meta.ByJournal() {
		t.Errorf("after %+v: %+v, relied on: %v", done, stored(), c.Engine().Meta.ByJournal())
	}
	if found, _, err := tools.EntriesOf(ctx, "docs", "pending"); err != nil || len(found) == 0 {
		t.Errorf("no entry names what is pending: %v", err)
	}
	var pending []string
	for p, err := range tools.ListPending(ctx, "docs", percolator.All(), admin.PendingOptions{}) {
		must(t, err)
		pending = append(pending, p.Row)
	}
	if len(pending) != 1 || pending[0] != "pending" {
		t.Errorf("pending by the journal: %q", pending)
	}
}
