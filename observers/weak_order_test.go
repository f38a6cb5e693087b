package observers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// TestWeakNotificationOfATransactionThatBeganBeforeTheRun: a transaction begins, then a run for an
// earlier notification; the transaction notifies and commits during the run. The run has not seen
// what it wrote, so the notification has to outlive the run. It does, because it carries the commit
// timestamp (I11).
func TestWeakNotificationOfATransactionThatBeganBeforeTheRun(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, percolator.Table{Name: "t", Weak: []string{"w"}}), observers.NewRegistry()
	began, goOn, seen := make(chan struct{}, 10), make(chan struct{}), make(chan bool, 10)
	r.Observe("o", "t", "w", func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		_, err := tx.Get(ctx, cell("value", "v"))
		if err != nil && !errors.Is(err, percolator.ErrNotFound) {
			return err
		}
		began <- struct{}{}
		<-goOn
		seen <- err == nil
		return nil
	})
	tx, err := e.client.Begin(e.ctx)
	if err != nil {
		t.Fatal(err)
	}
	other := e.NewClient()
	if _, err := other.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Notify(cell("r", "w")) }); err != nil {
		t.Fatal(err)
	}
	// Only the scan tells the worker, so that it goes by what is in the table.
	w, _ := e.start(e.NewClient(), r, observers.Config{DisableDispatch: true, ScanInterval: time.Millisecond, DisableCollection: true})
	<-began
	if err := errors.Join(tx.Set(cell("value", "v"), []byte("1")), tx.Notify(cell("r", "w"))); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(e.ctx); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	e.idle(w)
	close(seen)
	last := false
	for last = range seen {
	}
	if !last {
		t.Fatal("no run has seen what the transaction wrote before it notified")
	}
}
