package admin_test

import (
	"github.com/gopercolator/percolator/percolator/model"

	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Collection killed at any request, to the journal or another table, or with the request or answer
// of a write lost, and begun again by another client. Nothing that the next cycle should have found
// is left.
func TestCollectionInterrupted(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][]func(*percolator.Schema){"journal": nil, "passes": {fixture.ByPasses}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var methods []string
			percolatortest.Bubble(t, func(t *testing.T) {
				methods = interruptCollection(t, change, func(int) percolatortest.Action { return percolatortest.Pass })
			})
			if len(methods) < 20 {
				t.Fatalf("a cycle has %d requests: there is too little to do", len(methods))
			}
			for at, method := range methods {
				for _, fault := range []percolatortest.Effect{percolatortest.Crash, percolatortest.LoseRequest, percolatortest.LoseAnswer} {
					if fault != percolatortest.Crash && method != percolatortest.CheckAndMutateRow && method != percolatortest.MutateRows {
						continue
					}
					if !fixture.Sampled(fmt.Sprint(name, fault, at)) {
						continue
					}
					t.Run(fmt.Sprint(fault, "/", at), func(t *testing.T) {
						t.Parallel()
						percolatortest.Bubble(t, func(t *testing.T) {
							interruptCollection(t, change, func(seq int) percolatortest.Action {
								if seq == at {
									return fault
								}
								return percolatortest.Pass
							})
						})
					})
				}
			}
		})
	}
}

// interruptCollection runs a cycle whose requests meet a fault, and a second one where that did not
// come to its end. It returns the methods of the first one's requests. Reads of the meta table are
// not among them: the client makes some by itself, at any time.
func interruptCollection(t *testing.T, change []func(*percolator.Schema), fault func(seq int) percolatortest.Action) []string {
	env := fixture.NewCollectorEnv(t, change...)
	ctx := fixture.Context(t)
	writeGarbage(t, ctx, env)
	first := env.NewClient(fixture.ShortRetention)
	var mu sync.Mutex
	var methods []string
	handler := func(r percolatortest.Request) percolatortest.Action {
		mu.Lock()
		defer mu.Unlock()
		if r.Table == "percolator_meta" && r.Method == percolatortest.ReadRows {
			return percolatortest.Pass
		}
		methods = append(methods, r.Method)
		return fault(len(methods) - 1)
	}
	env.FaultsOf(first).Handle(handler)
	env.FaultsOf(first).HandleJournal(handler)
	col, err := fixture.NewCollector(t, first, admin.CollectorConfig{Lease: 30 * time.Second}).Collect(ctx)
	if err == nil && col.Phase != model.CollectionDone {
		t.Errorf("ended without an error in %+v", col)
	}
	if err == nil {
		checkCollected(t, ctx, env, env.Client)
	} else {
		env.Clock.Advance(31 * time.Second) // its lease
		second := env.NewClient(fixture.ShortRetention)
		env.Clock.Advance(fixture.PastRetention)
		fixture.Collect(t, ctx, second)
		fixture.WantNow(t, ctx, second, fixture.Cell("kept", "c"), "4")
		fixture.WantNow(t, ctx, second, fixture.Cell("forward too", "c"), "crashed")
		fixture.WantCells(t, ctx, env, "in the end", 4, 0, 4, 3) // by now nobody can read kept/c's older version
	}
	env.Audit(t, func(cfg *model.AuditConfig) { cfg.Collected, cfg.SkipNotifications = true, true })
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(methods)
}
