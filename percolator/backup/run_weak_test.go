package backup_test

import (
	"slices"
	"testing"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/internal/transfer"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Weak notifications that were pending at a snapshot are found by the journal, whatever has become
// of their entries: settled and below the low position, cleared after the snapshot, which leaves a
// trace, collected because their cells are parked, or announced again by a retry or a drop.
func TestWeakNotificationsByJournal(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testWeakNotificationsByJournal)
}

func testWeakNotificationsByJournal(t *testing.T) {
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
	park := func(row string) model.ObserverState {
		t.Helper()
		now, err := env.Oracle.Next(ctx)
		must(t, err)
		s := model.ObserverState{Cell: again(row), Observer: "weak", Through: now, Attempts: 7, Reason: "x", Since: time.Unix(1e9, 0).UTC(), Observers: []string{"weak"}}
		must(t, c.Engine().Commits.SetObserverStates(ctx, s))
		return s
	}
	for _, row := range []string{"done", "dropped", "late", "parked", "retried", "unparked"} {
		notify(t, writer, row)
	}
	notify(t, c, "pending")
	clear("done")
	park("parked")
	dropped, retried, unparked := park("dropped"), park("retried"), park("unparked")
	must(t, writer.Close())
	env.Clock.Advance(2 * time.Hour)
	fixture.Collect(t, testContext(t), env.Client)
	for _, row := range []string{"dropped", "parked", "retried", "unparked"} {
		if found, _, err := tools.EntriesOf(ctx, "docs", row); err != nil || len(found) > 0 {
			t.Fatalf("entries that name %s: %+v, %v", row, found, err)
		}
	}

	_, ts, err := transfer.BeginExport(ctx, c.Engine(), model.MaxHoldTTL, "test", nil)
	must(t, err)
	clear("late")
	settled(t, c, "late")
	must(t, tools.RetryParked(ctx, unparked))
	must(t, tools.RetryParked(ctx, retried))
	clear("retried")
	must(t, c.Engine().Commits.ForgetObserverStates(ctx, retried))
	must(t, tools.DropParked(ctx, dropped))
	must(t, c.Flush(ctx))
	notify(t, c, "after")
	env.Clock.Advance(2 * time.Hour)
	fixture.Collect(t, testContext(t), env.Client)
	must(t, transfer.AwaitWeak(ctx, c.Engine()))
	reader := env.NewClient()
	var got []string
	for row, err := range transfer.ExportWeak(ctx, reader.Engine(), ts, "docs", percolator.All()) {
		must(t, err)
		got = append(got, row.Row)
	}
	if want := []string{"dropped", "late", "parked", "pending", "retried", "unparked"}; !slices.Equal(got, want) {
		t.Errorf("exported %q, want %q", got, want)
	}
	for _, r := range env.FaultsOf(reader).Requests() {
		if m, ok := r.Message.(*btpb.ReadRowsRequest); ok && r.Table == "docs" && len(m.GetRows().GetRowKeys()) == 0 {
			t.Errorf("it read a range: %v", m.GetRows())
		}
	}
}

// settled moves the low position of the stream that names a row behind it, as whoever adopts the
// stream does.
func settled(t *testing.T, c *percolator.Client, row string) {
	t.Helper()
	found, _, err := admin.New(c).EntriesOf(testContext(t), "docs", row)
	must(t, err)
	if len(found) != 1 {
		t.Fatalf("entries that name %s: %+v", row, found)
	}
	id, err := journal.ParseStreamID(found[0].Stream)
	must(t, err)
	must(t, journal.WriteLow(testContext(t), c.Engine().Store, map[journal.StreamID]journal.Low{id: {Seq: found[0].Seq + 100}}))
}

// A process that has not heard yet that the journal was turned off exports the weak notifications
// that no entry names.

func TestWeakNotificationsWithoutAnEntry(t *testing.T) {
	t.Parallel()
	schema := func(without bool) *percolator.Schema {
		return &percolator.Schema{
			Tables:         []percolator.Table{{Name: "t", Weak: []string{"poke"}}},
			Timing:         percolator.Timing{MetaMaxAge: time.Minute},
			DisableJournal: without,
		}
	}
	env := percolatortest.New(t, schema(false))
	ctx := fixture.Context(t)
	fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, schema(true), env.Options()...))
	knows := env.NewClient()
	fixture.Must(t, fixture.Update(ctx, knows, func(tx *percolator.Txn) error { return tx.Notify(fixture.Cell("r", "poke")) }))
	ts, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	n := 0
	for _, err := range transfer.ExportWeak(ctx, env.Client.Engine(), ts, "t", model.All()) {
		fixture.Must(t, err)
		n++
	}
	if n != 1 {
		t.Errorf("%d rows are exported", n)
	}
}

// However the oracle's clock jumps, an export waits a request lifetime for weak notifications that
// clients have yet to write (I14).
func TestAwaitWeakByTheMonotonicClock(t *testing.T) {
	t.Parallel()
	const lifetime = 100 * time.Millisecond
	schema := &percolator.Schema{Tables: observed.Tables, Timing: percolator.Timing{RequestLifetime: lifetime}}
	env := percolatortest.New(t, schema)
	ctx := testContext(t)
	for _, jump := range []time.Duration{0, time.Hour} {
		env.Clock.Advance(jump)
		started := time.Now()
		must(t, transfer.AwaitWeak(ctx, env.Client.Engine()))
		if d := time.Since(started); d < lifetime {
			t.Errorf("waited %v after a jump by %v", d, jump)
		}
	}
}
