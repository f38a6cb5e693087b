package commit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// newClient is a client with the table t, whose column poke is weak.
func newClient(t *testing.T) (context.Context, *percolator.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx, percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t", Weak: []string{"poke"}}}}).Client
}

func cell(row, column string) percolator.Cell {
	return percolator.Cell{Table: "t", Row: row, Column: column}
}

func second[T any](_ T, err error) error { return err }

func leaveRoom(tx *percolator.Txn, bytes int) { (*commit.Txn)(tx).LeaveRoom(bytes) }

func wantBuffered(t *testing.T, tx *percolator.Txn, what string, cells, left int) {
	t.Helper()
	if n, room := (*commit.Txn)(tx).Room(); n != cells || room != left {
		t.Errorf("%s: %d cells and %d bytes left, want %d cells and %d bytes", what, n, room, cells, left)
	}
}

// Everything that is buffered counts towards percolator.MaxTxnBytes. What has no room is refused by
// itself, and the transaction commits what it has.
func TestTransactionBytesAreLimited(t *testing.T) {
	t.Parallel()
	ctx, c := newClient(t)
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Set(cell("a", "c"), []byte("12345")); err != nil {
		t.Fatal(err)
	}
	before := c.Stats().Requests["ReadRows"]
	leaveRoom(tx, 9)
	for what, err := range map[string]error{
		"Set":            tx.Set(cell("r", "c"), make([]byte, 8)),
		"Insert":         tx.Insert(cell("r", "c"), make([]byte, 8)),
		"Delete":         tx.Delete(cell("a long row", "c")),
		"GetForUpdate":   second(tx.GetForUpdate(ctx, cell("a long row", "c"))),
		"Set once more":  tx.Set(cell("a", "c"), make([]byte, 15)),
		"a typed Set":    percolator.Bytes("t", "c").Set(tx, "r", make([]byte, 8)),
		"a typed Delete": percolator.Bytes("t", "c").Delete(tx, "a long row"),
	} {
		if !errors.Is(err, percolator.ErrTooLarge) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := c.Stats().Requests["ReadRows"] - before; n != 0 {
		t.Errorf("%d requests for what was refused", n)
	}
	wantBuffered(t, tx, "after the refusals", 1, 9)
	for what, err := range map[string]error{
		"the bytes that are left": tx.Set(cell("b", "c"), make([]byte, 7)),
		"less than there was":     tx.Set(cell("a", "c"), []byte("1234")),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	s, err := c.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	values, err := s.GetMulti(ctx, cell("a", "c"), cell("b", "c"), cell("r", "c"), cell("a long row", "c"))
	if err != nil || string(values[0]) != "1234" || len(values[1]) != 7 || values[2] != nil || values[3] != nil {
		t.Errorf("committed %q, %v", values, err)
	}
}

// Weak notifications are limited by their number.
func TestWeakNotificationsAreLimited(t *testing.T) {
	t.Parallel()
	ctx, c := newClient(t)
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	row := make([]byte, 4)
	for i := range commit.MaxWeak {
		row[0], row[1], row[2], row[3] = 'r', byte(i>>16), byte(i>>8), byte(i)
		if err := tx.Notify(cell(string(row), "poke")); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Notify(cell("one more", "poke")); !errors.Is(err, percolator.ErrTooLarge) {
		t.Errorf("one more: %v", err)
	}
	if err := tx.Notify(cell(string(row), "poke")); err != nil {
		t.Errorf("one of them again: %v", err)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
}

// GetForUpdate on a cell that has been written changes nothing, the accounting of bytes included.
func TestBytesAreCountedOnceAndKept(t *testing.T) {
	t.Parallel()
	ctx, c := newClient(t)
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Set(cell("r", "c"), make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	cells, left := (*commit.Txn)(tx).Room()
	if _, err := tx.GetForUpdate(ctx, cell("r", "c")); err != nil {
		t.Fatal(err)
	}
	wantBuffered(t, tx, "after GetForUpdate", cells, left)
}
