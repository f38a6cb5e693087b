package observers_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Members that take one value of a unique index are not in one commit: one of them takes it, and
// the others learn so when they run again (I32).
func TestMembersThatTakeOneUniqueValue(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		e := newEnv(t, percolator.Table{Name: "t", Observed: []string{"in"}, Indexes: []percolator.Index{{Name: "by-name", Column: "name", Unique: true}}})
		g := &inGroups{env: e, journal: newJournal(), r: observers.NewRegistry()}
		var refused atomic.Int64
		g.observe(func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
			for entry, err := range tx.ScanIndex(ctx, "t", "by-name", percolator.Row("one")) {
				if err != nil {
					return err
				}
				if entry.Cell.Row != ch.Cell.Row {
					refused.Add(1)
					return nil
				}
			}
			return tx.Set(cell(ch.Cell.Row, "name"), []byte("one"))
		})
		g.gather(8)
		g.ranOnce(8)
		if n := refused.Load(); n != 7 {
			t.Errorf("%d of 7 were refused", n)
		}
		rows := 0
		err := e.client.View(e.ctx, func(ctx context.Context, s *percolator.Snapshot) error {
			for _, err := range s.ScanIndex(ctx, "t", "by-name", percolator.Row("one")) {
				if err != nil {
					return err
				}
				rows++
			}
			return nil
		})
		if err != nil || rows != 1 {
			t.Errorf("%d rows have the value, %v", rows, err)
		}
		e.Audit(t)
	})
}
