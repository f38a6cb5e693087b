package percolator

import (
	"errors"
	"fmt"
	"testing"
)

// full is a transaction under LockReads that can buffer only so many bytes more.
func full(t *testing.T, c *Client, left int) *Txn {
	t.Helper()
	tx, err := c.Begin(t.Context(), LockReads())
	if err != nil {
		t.Fatal(err)
	}
	tx.bytes = MaxTxnBytes - left
	return tx
}

func (tx *Txn) wantBuffered(t *testing.T, what string, cells, left int) {
	t.Helper()
	if len(tx.order) != cells || len(tx.writes) != cells || tx.bytes != MaxTxnBytes-left {
		t.Errorf("%s: %d cells in order, %d by name, %d bytes left, want %d cells and %d bytes", what, len(tx.order), len(tx.writes), MaxTxnBytes-tx.bytes, cells, left)
	}
}

// Locks of reads count as what is written does. A read for which there is no room is refused as a whole, before it sends anything, and
// the transaction goes on with what it has.
func TestLockReadsCountTowardsTheTransaction(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
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
	if _, err := tx.GetMulti(ctx, cell("row0", "c"), cell("row1", "c"), cell("row2", "c")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("three locks in 12 bytes: %v", err)
	}
	tx.wantBuffered(t, "refused", 0, 12)
	if n := c.Stats().Requests["ReadRows"] - before; n != 0 {
		t.Errorf("%d requests for a read that was refused", n)
	}
	if _, err := tx.GetMulti(ctx, cell("row0", "c"), cell("row0", "c"), cell("row0", "c")); err != nil {
		t.Errorf("one cell three times: %v", err)
	}
	tx.wantBuffered(t, "one cell three times", 1, 7)
	if _, err := tx.Get(ctx, cell("row0", "c")); err != nil {
		t.Error(err)
	}
	tx.wantBuffered(t, "and again", 1, 7)
	handed := 0
	for e, err := range tx.Scan(ctx, "t", All()) {
		if err == nil {
			handed++
			continue
		}
		if !errors.Is(err, ErrTooLarge) || e.Value != nil {
			t.Errorf("the scan ends with %v, %v", e, err)
		}
	}
	if handed != 2 { // row0 is locked already, row1 has room, row2 has not
		t.Errorf("the scan handed out %d entries, want 2", handed)
	}
	tx.wantBuffered(t, "the scan", 2, 2)
	if _, err := tx.GetForUpdate(ctx, cell("row3", "c")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("GetForUpdate: %v", err)
	}
	if err := tx.Set(cell("row0", "c"), []byte("12")); err != nil {
		t.Errorf("two bytes more: %v", err)
	}
	if err := tx.Set(cell("row0", "c"), []byte("123")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("three bytes more: %v", err)
	}
	tx.wantBuffered(t, "full", 2, 0)
	if err := tx.Delete(cell("row0", "c")); err != nil {
		t.Error(err)
	}
	tx.wantBuffered(t, "deleted instead", 2, 2)
	if _, err := tx.Commit(ctx); err != nil {
		t.Errorf("the transaction was not usable any more: %v", err)
	}
}
