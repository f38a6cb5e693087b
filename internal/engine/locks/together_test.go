package locks

import (
	"context"
	"sync"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Wherever the lock on the primary is among those of a transaction, it is decided first, and
// nothing is decided twice.
func TestATransactionIsDecidedOnceByItsPrimary(t *testing.T) {
	t.Parallel()
	cell := func(row string) model.Cell { return model.Cell{Table: "t", Row: row, Column: "c"} }
	rows := []string{"a", "b", "c", "d"}
	for at := range rows {
		var met []*Met
		for _, row := range rows {
			for start := range tso.Timestamp(2) { // of two transactions, which lock the same rows
				met = append(met, &Met{Cell: cell(row), Lock: layout.LockRecord{StartTS: start + 1, Primary: cell(rows[at])}})
			}
		}
		var mu sync.Mutex
		decided := map[*Met]int{}
		err := new(Resolver).together(t.Context(), met, func(_ context.Context, m *Met) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			decided[m]++
			m.Resolved = Resolved{Resolution: model.LockAlive}
			return true, nil
		})
		if err != nil || len(decided) != 2 {
			t.Errorf("primary %d: %d locks were decided: %v", at, len(decided), err)
		}
		for m, n := range decided {
			if n != 1 || m.Cell != m.Lock.Primary {
				t.Errorf("primary %d: %v was decided %d times", at, m.Cell, n)
			}
		}
		for _, m := range met {
			if m.Resolution != model.LockAlive {
				t.Errorf("primary %d: %v of %d is left out", at, m.Cell, m.Lock.StartTS)
			}
		}
	}
}
