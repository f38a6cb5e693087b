package store

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
)

// A mutation whose time is over is not sent, and the others in its request are none the worse.
func TestExpiredMutationDoesNotFailItsBatch(t *testing.T) {
	t.Parallel()
	s := newBareStore(t)
	b := NewBulkWriter(s.Background, s.Store)
	results := make([]error, 2)
	batch := make([]RowMutation, 2)
	for i, deadline := range []time.Time{time.Now().Add(-time.Second), time.Now().Add(time.Minute)} {
		mut := NewMutation(1)
		mut.Put(layout.NotifyFamily, "c", 1, nil)
		epoch := &bulkEpoch{open: 1, done: make(chan struct{})}
		batch[i] = RowMutation{Table: "t", Row: []string{"late", "fresh"}[i], Mut: mut, Deadline: deadline, epoch: epoch,
			Done: func(err error) { results[i] = err }}
		batch[i].tablet = b.tabletOf(batch[i])
		b.tryPlace(batch[i].tablet)
	}
	b.apply(&bulkSlot{queues: &TabletQueues[RowMutation]{Table: "t"}, queue: new(tabletQueue[RowMutation])}, batch)
	if results[0] == nil {
		t.Error("a mutation was sent after its deadline")
	}
	if results[1] != nil {
		t.Errorf("a fresh mutation failed with its neighbour: %v", results[1])
	}
	if late := s.seen(t, "t", "late", AnyNotify("c")); late != nil {
		t.Errorf("the late mutation was applied: %q", late)
	}
	row, err := s.ReadRow(t.Context(), "t", "fresh", AnyNotify("c"))
	if err != nil || len(row.Of(layout.NotifyFamily)) != 1 {
		t.Errorf("the fresh mutation was not applied: %v, %v", row, err)
	}
}

// A slot that is given up and given back counts once, whichever comes first.
func TestSlotOfABulkRequestIsGivenBackOnce(t *testing.T) {
	t.Parallel()
	s := newBareStore(t)
	b := NewBulkWriter(s.Background, s.Store)
	b.push(RowMutation{Table: "t", Row: "r", Mut: NewMutation(1)})
	table := b.tables["t"]
	slot := table.Next()
	slot.Take()
	b.senders.Add(1)
	b.drain(slot)     // there is nothing more to send
	b.leaveSlot(slot) // as the timer of a request does that has just ended
	if table.inFlight != 0 {
		t.Errorf("%d requests are under way", table.inFlight)
	}
	b.push(RowMutation{Table: "t", Row: "r", Mut: NewMutation(1)})
	slot = table.Next()
	slot.Take()
	b.leaveSlot(slot)
	b.leaveSlot(slot)
	if table.inFlight != 0 {
		t.Errorf("%d requests are under way", table.inFlight)
	}
}
