package observers_test

import (
	"context"
	"testing"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestParkedDeletionOutlivesCollection: an observer is parked for a deletion. Collection removes a
// tombstone once nobody waits for the deletion. It must leave this one: the observer sees it when
// it is retried.
func TestParkedDeletionOutlivesCollection(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testParkedDeletionOutlivesCollection)
}

func testParkedDeletionOutlivesCollection(t *testing.T) {
	e, j, r := aged(t, 3)
	e.collect()
	broken := true
	r.Observe("late", "t", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		if broken {
			panic("poison")
		}
		j.add("late", ch)
		return nil
	})
	w, stop := e.start(e.client, r, parkSoon)
	if _, err := e.client.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Delete(cell("0001", "in")) }); err != nil {
		t.Fatal(err)
	}
	e.idle(w)
	stop()
	for range 2 {
		e.collect()
	}
	if p := e.parked(); len(p) != 1 || p[0].Cell != cell("0001", "in") {
		t.Fatalf("parked after collection: %+v", p)
	}
	broken = false
	e.retryParked()
	w, _ = e.start(e.NewClient(), r, parkSoon)
	e.idle(w)
	if all := j.all(); j.count("late") != 1 || !all[len(all)-1].Deleted {
		t.Fatalf("the observer was called %d times, last for %+v", j.count("late"), all[len(all)-1])
	}
	e.until("nothing is left of the notification", func() bool { return len(e.pending()) == 0 })
}

// TestBackfillBesideWriters: cells change, vanish and appear while two processes backfill them. In
// the end the observer has seen the newest change of every cell that has a value.
func TestBackfillBesideWriters(t *testing.T) {
	t.Parallel()
	const rows = 120
	e, _, r := aged(t, rows)
	seen := newJournal()
	r.Observe("new", "t", "in", seen.observer("new"))
	w, _ := e.start(e.NewClient(), r, parkSoon)
	done := make(chan error, 2)
	for range 2 {
		c := e.NewClient()
		go func() {
			_, err := admin.New(c).BackfillObserver(e.ctx, "t", "in", "new", admin.ObserverOptions{RowsPerPage: 7})
			done <- err
		}()
	}
	writer := e.NewClient()
	for i := range rows {
		row := string([]byte{'0', byte('0' + i/100), byte('0' + i/10%10), byte('0' + i%10)})
		if i%3 == 0 {
			e.set(writer, row, "in", "changed")
		}
		if i%5 == 0 {
			if _, err := writer.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Delete(cell(row, "in")) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	e.idle(w)
	last := map[string]string{}
	for _, ch := range seen.all() {
		last[ch.Cell.Row] = string(ch.Value)
	}
	for i := range rows {
		row := string([]byte{'0', byte('0' + i/100), byte('0' + i/10%10), byte('0' + i%10)})
		if now := e.get(row, "in"); now != "" && last[row] != now {
			t.Errorf("row %s holds %q, and the observer has seen %q last", row, now, last[row])
		}
	}
}
