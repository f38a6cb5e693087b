package commit_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/percolator"
)

// full is a transaction under LockReads that can buffer only so many bytes more.
func full(t *testing.T, c *percolator.Client, left int) *percolator.Txn {
	t.Helper()
	tx, err := c.Begin(t.Context(), percolator.LockReads())
	if err != nil {
		t.Fatal(err)
	}
	leaveRoom(tx, left)
	return tx
}

// Locks of reads count as what is written does. A read for which there is no room is refused as a
// whole, before it sends anything, and the transaction goes on with what it has.
func TestLockReadsCountTowardsTheTransaction(t *testing.T) {
	t.Parallel()
	ctx, c := newClient(t)
	setup, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if err := setup.Set(cell(fmt.Sprint("row", i), "c"), []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := setup.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(ctx); err != nil {
		t.Fatal(err)
	}

	tx := full(t, c, 12) // each cell is 5 bytes
	before := c.Stats().Requests["ReadRows"]
	if _, err := tx.GetMulti(ctx, cell("row0", "c"), cell("row1", "c"), cell("row2", "c")); !errors.Is(err, percolator.ErrTooLarge) {
		t.Errorf("three locks in 12 bytes: %v", err)
	}
	wantBuffered(t, tx, "refused", 0, 12)
	if n := c.Stats().Requests["ReadRows"] - before; n != 0 {
		t.Errorf("%d requests for a read that was refused", n)
	}
	if _, err := tx.GetMulti(ctx, cell("row0", "c"), cell("row0", "c"), cell("row0", "c")); err != nil {
		t.Errorf("one cell three times: %v", err)
	}
	wantBuffered(t, tx, "one cell three times", 1, 7)
	if _, err := tx.Get(ctx, cell("row0", "c")); err != nil {
		t.Error(err)
	}
	wantBuffered(t, tx, "and again", 1, 7)
	handed := 0
	for e, err := range tx.Scan(ctx, "t", percolator.All()) {
		if err == nil {
			handed++
			continue
		}
		if !errors.Is(err, percolator.ErrTooLarge) || e.Value != nil {
			t.Errorf("the scan ends with %v, %v", e, err)
		}
	}
	if handed != 2 { // row0 is locked already, row1 has room, row2 has not
		t.Errorf("the scan handed out %d entries, want 2", handed)
	}
	wantBuffered(t, tx, "the scan", 2, 2)
	if _, err := tx.GetForUpdate(ctx, cell("row3", "c")); !errors.Is(err, percolator.ErrTooLarge) {
		t.Errorf("GetForUpdate: %v", err)
	}
	if err := tx.Set(cell("row0", "c"), []byte("12")); err != nil {
		t.Errorf("two bytes more: %v", err)
	}
	if err := tx.Set(cell("row0", "c"), []byte("123")); !errors.Is(err, percolator.ErrTooLarge) {
		t.Errorf("three bytes more: %v", err)
	}
	wantBuffered(t, tx, "full", 2, 0)
	if err := tx.Delete(cell("row0", "c")); err != nil {
		t.Error(err)
	}
	wantBuffered(t, tx, "deleted instead", 2, 2)
	if _, err := tx.Commit(ctx); err != nil {
		t.Errorf("the transaction was not usable any more: %v", err)
	}
}
