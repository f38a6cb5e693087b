package observers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Half of all reads of the table get lost, so batches of reads are given up. Every observer of a
// weak column still runs for each notification: what a read has not seen does not count as handled
// (I11).
func TestEveryObserverRunsBesideLostReads(t *testing.T) {
	t.Parallel()
	eachFindingInBubble(t, "", func(t *testing.T, by finding) {
		e := newEnvOf(t, by, []percolator.Table{{Name: "t", Weak: []string{"poke"}}})
		const rows = 300
		worker := e.NewClient()
		var mu sync.Mutex
		random := rand.New(rand.NewPCG(1, 2))
		e.FaultsOf(worker).Handle(func(r percolatortest.Request) percolatortest.Action {
			mu.Lock()
			defer mu.Unlock()
			if r.Method == percolatortest.ReadRows && r.Table == "t" && random.IntN(2) == 0 {
				return percolatortest.LoseRequest
			}
			return percolatortest.Pass
		})
		ran := map[string]map[string]bool{}
		r := observers.NewRegistry()
		for _, name := range []string{"first", "second", "third"} {
			ran[name] = map[string]bool{}
			r.Observe(name, "t", "poke", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
				mu.Lock()
				defer mu.Unlock()
				ran[name][ch.Cell.Row] = true
				return tx.Set(percolator.Cell{Table: "t", Row: ch.Cell.Row, Column: name}, []byte("ran"))
			})
		}
		for i := range rows {
			fixture.Must(t, fixture.Update(e.ctx, e.client, func(tx *percolator.Txn) error { return tx.Notify(fixture.Cell(fmt.Sprint(i), "poke")) }))
		}
		w, stop := e.start(worker, r, observers.Config{Concurrency: 32})
		fixture.Must(t, w.WaitIdle(e.ctx))
		stop()
		s, err := e.client.Snapshot(e.ctx)
		fixture.Must(t, err)
		for name, did := range ran {
			n := 0
			for _, err := range s.Scan(e.ctx, "t", percolator.All(), name) {
				fixture.Must(t, err)
				n++
			}
			if len(did) != rows || n != rows {
				t.Errorf("%s ran for %d rows and committed for %d, want %d", name, len(did), n, rows)
			}
		}
	})
}
