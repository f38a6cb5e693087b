package percolator

import (
	"errors"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
)

// Reads of strangers travel together; a row of one that cannot be decoded is that one's alone.
func TestCorruptRowFailsOnlyItsOwnReaderInABatch(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Set(cell("good", "c"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	mut := bigtable.NewMutation()
	mut.Set(lockFamily, "c", 1000, []byte("not a lock"))
	if err := c.store.table("t").Apply(ctx, "bad", mut); err != nil {
		t.Fatal(err)
	}
	q := rowQuery{table: "t", columns: []string{"c"}, ts: 100, window: 1}
	batch := []*batchedRead{{q, "bad", make(chan batchAnswer, 1)}, {q, "good", make(chan batchAnswer, 1)}}
	c.batch.send(batch)
	if a := <-batch[0].answer; a.err != nil || !errors.Is(a.seen["c"].corrupt, ErrCorrupt) {
		t.Errorf("the reader of the corrupt row got %v, %+v", a.err, a.seen)
	}
	a := <-batch[1].answer
	if a.err != nil {
		t.Fatalf("the reader of the other row got %v", a.err)
	}
	if seen := a.seen["c"].at(100, a.window); string(seen.value) != "v" {
		t.Errorf("the reader of the other row saw %+v", seen)
	}
}

// A mutation whose time is over is not sent, and the others in its request are none the worse.
func TestExpiredMutationDoesNotFailItsBatch(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	results := make([]error, 2)
	batch := make([]rowMutation, 2)
	for i, deadline := range []time.Time{time.Now().Add(-time.Second), time.Now().Add(time.Minute)} {
		mut := bigtable.NewMutation()
		mut.Set(notifyFamily, "c", 1000, nil)
		epoch := &bulkEpoch{open: 1, done: make(chan struct{})}
		batch[i] = rowMutation{table: "t", row: []string{"late", "fresh"}[i], mut: mut, deadline: deadline, epoch: epoch,
			done: func(err error) { results[i] = err }}
		c.bulk.slots <- struct{}{}
	}
	c.bulk.apply(&bulkPlace{b: c.bulk, table: "t", t: new(bulkTable)}, batch)
	if results[0] == nil {
		t.Error("a mutation was sent after its deadline")
	}
	if results[1] != nil {
		t.Errorf("a fresh mutation failed with its neighbour: %v", results[1])
	}
	row, err := c.store.readRow(ctx, "t", "fresh", bigtable.PassAllFilter())
	if err != nil || len(row[notifyFamily]) != 1 {
		t.Errorf("the fresh mutation was not applied: %v, %v", row, err)
	}
}

// GetForUpdate on a cell that has been written changes nothing, the accounting of bytes included.
func TestBytesAreCountedOnceAndKept(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Set(cell("r", "c"), make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	want := tx.bytes
	if _, err := tx.GetForUpdate(ctx, cell("r", "c")); err != nil {
		t.Fatal(err)
	}
	if tx.bytes != want {
		t.Errorf("%d bytes counted after GetForUpdate, want %d", tx.bytes, want)
	}
}

// A place that is given up and given back counts once, whichever comes first.
func TestPlaceOfABulkRequestIsGivenBackOnce(t *testing.T) {
	t.Parallel()
	_, c := newBareClient(t)
	table := &bulkTable{inFlight: 1, starting: 1}
	place := c.bulk.newPlace("t", table)
	c.bulk.senders.Add(1)
	c.bulk.drain(place) // there is nothing to send
	place.leave()       // as the timer of a request does that has just ended
	if table.inFlight != 0 {
		t.Errorf("%d requests are under way", table.inFlight)
	}
	table.inFlight = 1
	place = c.bulk.newPlace("t", table)
	place.leave()
	place.leave()
	if table.inFlight != 0 {
		t.Errorf("%d requests are under way", table.inFlight)
	}
}

// A lock that seems dead on an old look is looked at again before anything is rolled back: its owner may have refreshed it since.
func TestStaleLookAtALockRollsNothingBack(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	now, err := c.next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	at := cell("r", "c")
	seen := lockRecord{startTS: now, kind: kindPut, primary: at, placed: now, ttl: 0}
	refreshed := seen
	refreshed.ttl = time.Hour
	mut := bigtable.NewMutation()
	mut.Set(lockFamily, "c", cellTime(now), refreshed.encode())
	if err := c.store.table("t").Apply(ctx, "r", mut); err != nil {
		t.Fatal(err)
	}
	if s, err := c.resolve(ctx, at, seen, true); err != nil || s.resolution != LockAlive {
		t.Errorf("%v, %v", s.resolution, err)
	}
	if n := c.LocksOf(t, "t", "r"); n != 1 {
		t.Errorf("%d locks are left", n)
	}
}
