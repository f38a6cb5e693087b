package exportqueue_test

import (
	"slices"
	"testing"

	"github.com/gopercolator/percolator/observers"
)

// A slice whose entries are all delivered is not parked beside the oldest one.
func TestAnEmptySliceIsNotParked(t *testing.T) {
	t.Parallel()
	e := newEnv(t, onePartition)
	tx, _, err := e.attempt(e.addAt("k", "1"), func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	e.commit(tx) // and the worker dies before it erases the notification
	e.Clock.Advance(apart)
	oldest := e.addAt("k", "2")
	down := receiver{fail: func(int) error { return errDown }}
	w, stop := e.export(e.client, &down, observers.Config{MaxAttempts: 2})
	e.idle(w)
	stop()
	if p := e.parked(); len(p) != 1 || p[0].Cell.Row != oldest || len(e.notified()) != 1 {
		t.Errorf("parked %v, notified %v", p, e.notified())
	}
}

// An operator drops the oldest slice, and before a worker erases the notification another slice
// joins: its run notifies the slice again, which then leads to both.
func TestJoiningASliceThatWasDropped(t *testing.T) {
	t.Parallel()
	e := newEnv(t, onePartition)
	down := receiver{fail: func(int) error { return errDown }}
	w, stop := e.export(e.client, &down, observers.Config{MaxAttempts: 2})
	e.add("k", "1")
	e.idle(w)
	stop()
	e.Clock.Advance(apart)
	slice := e.addAt("k", "2")
	if err := observers.Drop(e.ctx, e.client, e.parked()[0]); err != nil {
		t.Fatal(err)
	}
	tx, notified, err := e.attempt(slice, func() error { return errDown })
	if err != nil {
		t.Fatal(err)
	}
	e.commit(tx)
	e.erase(notified, tx.StartTimestamp())
	var to receiver
	w, stop = e.export(e.client, &to, observers.Config{})
	e.idle(w)
	stop()
	if got := values(to.entries()); !slices.Equal(got, []string{"k=1", "k=2"}) {
		t.Errorf("delivered %v, left %v", got, e.pending())
	}
}
