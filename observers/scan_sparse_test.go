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

// TestWorkInASparseTable: a request passes over a tenth of the table, and there is work in three
// rows of it. The scan finds all of it, and those who wait until nothing is left do not wait for
// ever.
func TestWorkInASparseTable(t *testing.T) {
	t.Parallel()
	const rows = 600
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	p := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{table()}, DisableJournal: true}, fixture.CutReads(rows/10))
	p.Clock.Stop()
	e, j, r := &env{t, p, ctx, p.Client, byScans}, newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	fixture.Fill(t, ctx, p, "t", rows)
	strand(e)
	for _, i := range []int{1, rows - 1} {
		e.set(e.client, fixture.Key(i), "in", "1")
	}
	fixture.Must(t, e.client.Flush(ctx))

	left, err := observers.Remains(ctx, e.client)
	if err != nil || left != (observers.Remaining{Notifications: 2, Locks: 1}) {
		t.Errorf("%v, %v", left, err)
	}
	e.Clock.Advance(time.Minute) // the lock is dead
	w, _ := e.start(p.NewClient(), r, observers.Config{})
	fixture.Must(t, observers.WaitIdle(ctx, p.NewClient(), nil)) // the scan finds it
	e.idle(w)
	if n := j.count("o"); n != 3 {
		t.Errorf("idle after %d runs, want 3", n)
	}
}
