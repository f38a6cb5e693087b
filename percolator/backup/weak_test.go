package backup_test

import (
	"slices"
	"testing"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Weak notifications that were pending at a snapshot are found by the journal, whatever has become
// of their entries: settled and below the low position, cleared after the snapshot, which leaves a
// trace, collected because their cells are parked, or announced again by a retry.
func TestWeakNotificationsByJournal(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, observed)
	writer, c, ctx := env.NewClient(), env.Client, testContext(t)
	tools := admin.New(c)
	again := func(row string) percolator.Cell { return cell("docs", row, "again") }
	clear := func(row string) {
		t.Helper()
		now, err := env.Oracle.Next(ctx)
		must(t, err)
		must(t, tools.ClearNotification(ctx, again(row), now))
		must(t, c.Flush(ctx))
	}
	park := func(row string) admin.ObserverState {
		t.Helper()
		now, err := env.Oracle.Next(ctx)
		must(t, err)
		s := admin.ObserverState{Cell: again(row), Observer: "weak", Through: now, Attempts: 7, Reason: "x", Since: time.Unix(1e9, 0).UTC(), Observers: []string{"weak"}}
		must(t, tools.SetObserverStates(ctx, s))
		return s
	}
	for _, row := range []string{"done", "late", "parked", "pending", "retried", "unparked"} {
		notify(t, writer, row)
	}
	clear("done")
	park("parked")
	retried, unparked := park("retried"), park("unparked")
	must(t, writer.Close())
	env.Clock.Advance(2 * time.Hour)
	collect(t, env)
	for _, row := range []string{"parked", "retried"} {
		if found, _, err := tools.EntriesOf(ctx, "docs", row); err != nil || len(found) > 0 {
			t.Fatalf("entries that name %s: %+v, %v", row, found, err)
		}
	}

	_, ts, err := tools.BeginExport(ctx, admin.MaxHoldTTL, "test", nil)
	must(t, err)
	clear("late")
	must(t, tools.RetryParked(ctx, retried))
	must(t, tools.RetryParked(ctx, unparked))
	clear("retried")
	notify(t, c, "after")
	env.Clock.Advance(2 * time.Hour)
	collect(t, env)
	must(t, tools.AwaitWeak(ctx, ts))
	reader := env.NewClient()
	var got []string
	for row, err := range admin.New(reader).ExportWeak(ctx, ts, "docs", percolator.All()) {
		must(t, err)
		got = append(got, row.Row)
	}
	if want := []string{"late", "parked", "pending", "retried", "unparked"}; !slices.Equal(got, want) {
		t.Errorf("exported %q, want %q", got, want)
	}
	for _, r := range env.FaultsOf(reader).Requests() {
		if m, ok := r.Message.(*btpb.ReadRowsRequest); ok && r.Table == "docs" && len(m.GetRows().GetRowKeys()) == 0 {
			t.Errorf("it read a range: %v", m.GetRows())
		}
	}
}
