package backup_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A commit that was acknowledged before the snapshot is in the backup as a whole, although not one secondary has been committed yet.
func TestAcknowledgedCommitIsInTheBackup(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, plain)
	ctx := testContext(t)
	writer, store := env.NewClient(), newMemory()
	env.FaultsOf(writer).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows && r.Table == "t" {
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	want := values{cell("t", "a", "c"): "1", cell("t", "b", "c"): "2", cell("t", "z", "c"): "3"}
	ts, err := writer.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		for at, value := range want {
			if err := tx.Set(at, []byte(value)); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	if m := run(t, env.Client, store, small); m.Snapshot < ts {
		t.Fatalf("the snapshot %d is older than the commit %d", m.Snapshot, ts)
	}
	equal(t, contents(t, restored(t, env, store)), want)
}

// While somebody may be exporting, the erasure of a weak notification leaves the one that came after the run.
func TestTraceLeavesLaterNotification(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, observed)
	ctx := testContext(t)
	_, err := admin.New(env.Client).TakeHold(ctx, 0, 0, "an export")
	must(t, err)
	c := env.NewClient() // knows of the hold
	notify(t, c, "r")
	run, err := env.Oracle.Next(ctx)
	must(t, err)
	notify(t, c, "r")
	at := cell("docs", "r", "again")
	must(t, admin.New(c).ClearNotification(ctx, at, run))
	must(t, c.Flush(ctx))
	if left, err := admin.New(c).Notified(ctx, at); err != nil || !left {
		t.Errorf("a notification after the run is there: %v, %v", left, err)
	}
	later, err := env.Oracle.Next(ctx)
	must(t, err)
	must(t, admin.New(c).ClearNotification(ctx, at, later))
	must(t, c.Flush(ctx))
	if left, err := admin.New(c).Notified(ctx, at); err != nil || left {
		t.Errorf("a notification of which everything was run is there: %v, %v", left, err)
	}
}

// A transaction that saw the empty tables from before a restore commits neither during it nor afterwards.
func TestTransactionFromBeforeTheRestore(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, plain)
	ctx, store := testContext(t), newMemory()
	set(t, env.Client, plainRows(20))
	run(t, env.Client, store, small)
	same := percolatortest.New(t, plain)
	begin := func() *percolator.Txn {
		tx, err := same.NewClient().Begin(ctx)
		must(t, err)
		if _, err := tx.Get(ctx, cell("t", "other", "c")); !errors.Is(err, percolator.ErrNotFound) {
			t.Fatal(err)
		}
		must(t, tx.Set(cell("t", "mine", "c"), []byte("from an empty table")))
		return tx
	}
	during, afterwards := begin(), begin()
	progress := 0
	must(t, errOf(backup.Restore(ctx, same.Client, store, backup.RestoreOptions{Progress: func(backup.Progress) {
		if progress++; progress == 1 {
			if ts, err := during.Commit(ctx); err == nil {
				t.Errorf("committed at %d while the restore was under way", ts)
			}
		}
	}})))
	if progress == 0 {
		t.Error("nothing was tried during the restore")
	}
	if ts, err := afterwards.Commit(ctx); err == nil {
		t.Errorf("committed at %d after the restore", ts)
	}
	equal(t, contents(t, same.NewClient()), contents(t, env.Client))
}
