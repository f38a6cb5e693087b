package observers_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
)

func TestCollapseWaits(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"), observers.Collapse(time.Hour))
	w, stop := e.start(e.client, r, observers.Config{})
	e.searched(w, 0)
	for i := range 100 {
		e.set(e.client, "r", "in", fmt.Sprint(i))
	}
	if s := w.Stats(); s.Queued != 1 || s.Attempts != 0 || s.Dispatched+s.Found < 100 {
		t.Fatalf("stats %+v", s)
	}
	stop() // it loses nothing
	if len(e.pending()) != 1 {
		t.Fatal("the notification is gone")
	}
}
