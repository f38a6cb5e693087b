package observers_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

func TestScannersTeleport(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testScannersTeleport)
}

func testScannersTeleport(t *testing.T) {
	e, j, r := newScanEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		j.add(ch.Cell.Row, ch)
		return nil
	})
	for _, row := range []string{"a", "m", "z"} {
		e.set(e.client, row, "in", "1")
	}
	w, err := observers.NewWorker(e.client, r, observers.Config{ScanInterval: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	unlock, _ := w.LockRow("t", "m")
	ctx, cancel := context.WithCancel(e.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	e.await(j, "a", 1)
	e.await(j, "z", 1) // from another place
	if j.count("m") != 0 || w.Stats().Teleports == 0 {
		t.Fatalf("m was run %d times; %d teleports", j.count("m"), w.Stats().Teleports)
	}
	unlock()
	e.await(j, "m", 1)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, ok := w.LockRow("t", "m"); !ok {
		t.Fatal("a scanner has left its lock behind")
	}
}
