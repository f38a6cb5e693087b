package observers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// What a hundred runs cost that are ready at the same time, each of which writes another row: the
// prewrites of both rows, and for each group one commit point and two requests for timestamps. By
// themselves they cost a hundred commit points and 200 timestamps.
func TestRequestsOfGroups(t *testing.T) {
	t.Parallel()
	const cells = 100
	for _, rc := range []struct {
		concurrency int
		conditional int
		timestamps  int
		more        int // commit points, at most
	}{
		{1, 300, 200, 0},
		{16, 207, 14, 40}, // of seven groups
	} {
		eachFindingInBubble(t, fmt.Sprint(rc.concurrency, " at once"), func(t *testing.T, by finding) {
			e := newEnvOf(t, by, []percolator.Table{{Name: "t", Observed: []string{"in"}}})
			r := observers.NewRegistry()
			r.Observe("o", "t", "in", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
				return tx.Set(cell("out of "+ch.Cell.Row, "out"), ch.Value)
			}, observers.CommitTogether(), observers.Collapse(time.Second)) // so that all are due at once
			w, _ := e.start(e.client, r, observers.Config{Concurrency: rc.concurrency, Scanners: 1, DisableCollection: true, ReportInterval: -1})
			e.writeRows(cells)
			e.FaultsOf(e.client).Forget()
			e.until("all runs", func() bool { s := w.Stats(); return s.Runs == cells && s.Queued+s.Running == 0 })
			if err := e.client.Flush(e.ctx); err != nil {
				t.Fatal(err)
			}
			conditional, timestamps := 0, 0
			for _, r := range e.FaultsOf(e.client).Requests() {
				switch r.Method {
				case percolatortest.CheckAndMutateRow:
					conditional++
				case percolatortest.Oracle:
					timestamps++
				}
			}
			t.Logf("%d conditional mutations, %d requests for timestamps", conditional, timestamps)
			// One that comes first may begin by itself.
			more := conditional - rc.conditional
			if more < 0 || more > rc.more || timestamps < rc.timestamps || timestamps > rc.timestamps+2*more+2 {
				t.Errorf("%d conditional mutations and %d requests for timestamps, want %d and %d", conditional, timestamps, rc.conditional, rc.timestamps)
			}
		})
	}
}

// writeRows writes cells of the column in, in rows r000, r001 and so on, by one transaction that
// has ended.
func (e *env) writeRows(n int) { e.writeRowsFrom(0, n) }

func (e *env) writeRowsFrom(first, n int) {
	e.Helper()
	_, err := e.client.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error {
		for i := range n {
			if err := tx.Set(cell(fmt.Sprintf("r%03d", first+i), "in"), fmt.Append(nil, i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = e.client.Flush(e.ctx)
	}
	if err != nil {
		e.Fatal(err)
	}
}
