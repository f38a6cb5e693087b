package observers_test

import (
	"context"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

func TestNotificationWithoutWorkIsErased(t *testing.T) {
	t.Parallel()
	e, j, r := newScanEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	r.Observe("p", "t", "in", j.observer("p"))
	ts := e.set(e.client, "r", "in", "1")
	w, stop := e.start(e.client, r, observers.Config{})
	e.idle(w)
	plant := func() {
		t.Helper()
		mut := bigtable.NewMutation()
		mut.Set("notify", "in", bigtable.Timestamp(ts*1000), nil)
		if err := e.Store().Open("t").Apply(e.ctx, "r", mut); err != nil {
			t.Fatal(err)
		}
	}
	plant()
	e.idle(w) // this worker knows what it has done
	if len(e.pending()) != 0 {
		t.Fatal("still notified")
	}
	stop()
	plant()
	w, _ = e.start(e.NewClient(), r, observers.Config{})
	e.idle(w) // and another one finds the acknowledgments
	if s := w.Stats(); len(e.pending()) != 0 || s.Acknowledged != 1 || j.count("o") != 1 || j.count("p") != 1 {
		t.Fatalf("pending %v, stats %+v", e.pending(), s)
	}
}

func TestWeakNotificationThatAnotherWorkerHasDealtWith(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, percolator.Table{Name: "t", Weak: []string{"w"}}), newJournal(), observers.NewRegistry()
	release := make(chan struct{})
	r.Observe("o", "t", "w", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		j.add(ch.Cell.Row, ch)
		<-release
		return nil
	})
	notify := func(row string) tso.Timestamp {
		t.Helper()
		ts, err := e.client.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Notify(cell(row, "w")) })
		if err != nil {
			t.Fatal(err)
		}
		return ts
	}
	w, _ := e.start(e.NewClient(), r, observers.Config{Concurrency: 1, ScanInterval: 10 * time.Millisecond})
	notify("first")
	e.await(j, "first", 1)
	ts := notify("second")
	e.until("the scan finds it", func() bool { return w.Stats().Found == 2 })
	if err := e.client.Engine().Commits.ClearNotification(e.ctx, cell("second", "w"), ts); err != nil { // as another worker does
		t.Fatal(err)
	}
	if err := e.client.Flush(e.ctx); err != nil {
		t.Fatal(err)
	}
	close(release)
	e.idle(w)
	if j.count("second") != 0 || w.Stats().Acknowledged == 0 { // more than once if a page that was read before comes late
		t.Fatalf("ran %d times, stats %+v", j.count("second"), w.Stats())
	}
}
