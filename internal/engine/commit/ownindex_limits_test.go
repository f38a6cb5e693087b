package commit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// What a scan of an index keeps of the transaction's own writes is limited: the entries of new
// values, and those of old ones, which may be much longer than the writes that remove them. A scan
// that is refused spoils nothing: with less to keep the next one goes on, and the commit takes all.
func TestOwnIndexEntriesAreLimited(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t", Indexes: []percolator.Index{{Name: "city", Column: "c"}}}}}).Client
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const long = 1000
	_, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		for i := range 3 {
			if err := tx.Set(cell(fmt.Sprint("old", i), "c"), []byte(strings.Repeat("x", long)+fmt.Sprint(i))); err != nil {
				return err
			}
		}
		return nil
	})
	must(err)
	tx, err := c.Begin(ctx)
	must(err)
	scan := func(want int) error {
		t.Helper()
		n := 0
		for _, err := range tx.ScanIndex(ctx, "t", "city", percolator.All()) {
			if err != nil {
				return err
			}
			n++
		}
		if n != want {
			t.Errorf("%d entries, want %d", n, want)
		}
		return nil
	}
	must(scan(3))
	(*commit.Txn)(tx).LeaveIndexRoom(2 * long)
	must(tx.Delete(cell("old0", "c")))
	must(scan(2))
	must(tx.Set(cell("new", "c"), []byte(strings.Repeat("y", long))))
	for range 2 {
		if err := scan(0); !errors.Is(err, percolator.ErrTooLarge) || strings.Contains(err.Error(), "yyy") {
			t.Errorf("a scan beside entries without room: %v", err)
		}
	}
	must(tx.Set(cell("new", "c"), []byte("short")))
	must(scan(3))
	must(tx.Delete(cell("old1", "c")))
	if err := scan(0); !errors.Is(err, percolator.ErrTooLarge) {
		t.Errorf("a scan beside the deletion of a long value: %v", err)
	}
	_, err = tx.Commit(ctx)
	must(err)
	s, err := c.Snapshot(ctx)
	must(err)
	n := 0
	for _, err := range s.ScanIndex(ctx, "t", "city", percolator.All()) {
		must(err)
		n++
	}
	if n != 2 {
		t.Errorf("%d entries were committed, want 2", n)
	}
}
