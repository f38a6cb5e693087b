package reads

import (
	"runtime"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A batch is given up, and its reads go alone: they ask what they have asked. A worker that missed
// a weak notification then would take it for handled, and erase it (I11).
func TestReadOfAGivenUpBatchAsksTheSame(t *testing.T) {
	t.Parallel()
	l := layertest.New(t, layertest.StartEmulator(t), "i")
	c := New(l.Store, l.Clock, l.Meta, l.Locks, l.Config)
	cell := model.Cell{Table: "t", Row: "r", Column: "poke"}
	layertest.Plant(t, l.Store, cell.Row, layout.NotifyFamily, cell.Column, 7, nil)
	q := rowQuery{table: "t", asks: pending, window: 1}
	c.batch.mu.Lock()
	queue := c.batch.queue(q.kind())
	first, _ := queue.Claim("r")
	queue.Push(&batchedRead{q, "r", make(chan batchAnswer, 1)})
	second := queue.Next()
	c.batch.mu.Unlock()
	type answer struct {
		pending model.Pending
		err     error
	}
	got := make(chan answer, 1)
	go func() {
		p, err := c.PendingOf(t.Context(), cell)
		got <- answer{p, err}
	}()
	for c.Waiting() < 2 { // both slots of the tablet are held
		runtime.Gosched()
	}
	c.batch.mu.Lock()
	batch := second.Take()
	first.Leave()
	c.batch.mu.Unlock()
	scatter(batch)
	if a := <-got; a.err != nil || !a.pending.Notifies(cell, tso.MaxTimestamp, 1) {
		t.Errorf("%+v, %v, want the notification", a.pending, a.err)
	}
}
