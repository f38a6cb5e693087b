package observers_test

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"math"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// topic is how clients name a column to the oracle.
func (e *env) topic(table, column string) uint64 {
	f := fnv.New64a()
	_, _ = f.Write([]byte(e.Project + "\x00" + e.Instance + "\x00" + table + "\x00" + column))
	return f.Sum64()
}

// TestHintFromTheFuture: correctness must not depend on hints. One that names a cell without a
// notification, at a timestamp in the future, must not erase the cell's later weak notifications.
func TestHintFromTheFuture(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testHintFromTheFuture)
}

func testHintFromTheFuture(t *testing.T) {
	e, j, r := newEnv(t, percolator.Table{Name: "t", Weak: []string{"weak"}}), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "weak", j.observer("o"))
	w, _ := e.start(e.NewClient(e.direct()), r, observers.Config{DisableCollection: true, ScanInterval: 10 * time.Millisecond})
	hint := tso.Hint{Topic: e.topic("t", "weak"), Data: string(binary.BigEndian.AppendUint64(nil, math.MaxInt64)) + "a"}
	e.until("the hint is taken", func() bool {
		refused, err := e.Oracle.(tso.Hints).LeaveHints(e.ctx, []tso.Hint{hint})
		return err == nil && len(refused) == 0
	})
	e.until("it is dealt with", func() bool { s := w.Stats(); return s.Acknowledged > 0 && s.Queued+s.Running == 0 })
	if _, err := e.client.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Notify(cell("a", "weak")) }); err != nil {
		t.Fatal(err)
	}
	e.until("a run, or nothing left to run for", func() bool { return j.count("o") > 0 || len(e.pending()) == 0 })
	e.idle(w)
	if n := j.count("o"); n == 0 {
		t.Error("the notification was erased, and the observer has not run")
	}
}
