package percolator

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// Locks that no transaction of ours can have placed are reported to whoever meets them: never a panic, a loop, or a silent roll back,
// and the cells stay as they are.
func TestHostileLocks(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	const start = 5
	lock := func(table, row, column string) []byte {
		l := lockRecord{startTS: start, kind: kindPut, primary: Cell{table, row, column}, placed: start, ttl: time.Second}
		return l.encode()
	}
	c.store.plant(t, ctx, "stranger", lockFamily, "c", start, lock("nowhere", "r", "c"))
	c.store.plant(t, ctx, "meta", lockFamily, "c", start, lock(metaTable, metaRow, "c"))
	c.store.plant(t, ctx, "one", lockFamily, "c", start, lock("t", "two", "c"))
	c.store.plant(t, ctx, "two", lockFamily, "c", start, lock("t", "one", "c"))
	c.store.plant(t, ctx, "chain", lockFamily, "c", start, lock("t", "one", "c"))
	c.store.plant(t, ctx, "behind garbage", lockFamily, "c", start, lock("t", "garbage", "c"))
	c.store.plant(t, ctx, "garbage", lockFamily, "c", start, []byte("x"))
	c.store.plant(t, ctx, "behind a record", lockFamily, "c", start, lock("t", "record", "c"))
	c.store.plant(t, ctx, "record", writeFamily, "c", 7, append(encodeWrite(start, 'X'), 1))
	hostile := []string{"stranger", "meta", "one", "two", "chain", "behind garbage", "garbage", "behind a record"}
	now := tso.Timestamp(0).Add(time.Hour)
	c.oracle.(*counter).last.Store(int64(now)) // all of them are long dead
	for _, row := range hostile {
		if _, err := newSnapshot(c, now).Get(ctx, cell(row, "c")); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a reader of %q: %v", row, err)
		}
		tx, err := c.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Set(cell(row, "c"), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Commit(ctx); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a writer of %q: %v", row, err)
		}
	}
	var locked, corrupt []string
	for p, err := range c.ScanPending(ctx, "t", All()) {
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range p.Locks {
			locked = append(locked, l.Cell.Row)
			if r, err := c.ResolveLock(ctx, l); !errors.Is(err, ErrCorrupt) {
				t.Errorf("resolving the lock of %q: %v, %v", l.Cell.Row, r, err)
			}
		}
		for _, cell := range p.Corrupt {
			corrupt = append(corrupt, cell.Row)
		}
	}
	if len(locked) != 7 || !slices.Equal(corrupt, []string{"garbage"}) {
		t.Errorf("after all that: locks of %q, corrupt %q", locked, corrupt)
	}
}
