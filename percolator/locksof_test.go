package percolator_test

import (
	"testing"

	"github.com/gopercolator/percolator/internal/store"
	"github.com/gopercolator/percolator/percolator"
)

// locksOf counts the locks that stand in a row.
func locksOf(c *percolator.Client, t testing.TB, table, row string) (n int) {
	t.Helper()
	rv, err := c.Engine().Store.ReadVersions(t.Context(), table, row, store.SnapshotFilter(nil, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range rv {
		n += len(v.Locks)
	}
	return n
}
