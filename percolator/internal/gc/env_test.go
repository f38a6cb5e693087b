package gc_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// bothWays runs a test, in virtual time, of what must hold by the journal and by passes.
func bothWays(t *testing.T, test func(t *testing.T, env *percolatortest.Env)) {
	for name, change := range map[string][]func(*percolator.Schema){"journal": nil, "passes": {fixture.ByPasses}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) { test(t, fixture.NewCollectorEnv(t, change...)) })
		})
	}
}

// writeGarbage writes what a collector has to do: versions, a deletion, a stranded lock of each
// sort, markers, and rows that must stay.
func writeGarbage(t testing.TB, ctx context.Context, env *percolatortest.Env) {
	t.Helper()
	c := env.Client
	for _, v := range []string{"1", "2", "3"} {
		fixture.Put(t, ctx, c, "kept", "c", v, "kept", "seen", v, "gone", "c", v)
	}
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return tx.Delete(fixture.Cell("gone", "c")) }))
	fixture.CrashAfter(t, env, nil, "rolled back", "back too")
	fixture.CrashAfter(t, env, fixture.IsCommit, "forward", "forward too")
	fixture.Must(t, c.Flush(ctx))
	env.Clock.Advance(fixture.PastRetention)
	fixture.Put(t, ctx, c, "kept", "c", "4")
}

// setJournal stores the schema of a collector's environment with or without the journal.
func setJournal(t *testing.T, ctx context.Context, env *percolatortest.Env, without bool) {
	t.Helper()
	s := *env.Client.Schema()
	s.DisableJournal = without
	fixture.Apply(t, ctx, env, &s)
}

// slowly delivers every request of a client 5 ms late. heard hears of it first, and what it
// returns, if not nil, of the delivery.
func slowly(env *percolatortest.Env, c *percolator.Client, heard func(percolatortest.Request) (delivered func())) {
	slow := func(r percolatortest.Request) percolatortest.Action {
		delivered := heard(r)
		h := percolatortest.NewHold()
		time.AfterFunc(5*time.Millisecond, func() {
			if delivered != nil {
				delivered()
			}
			h.Release()
		})
		return h
	}
	env.FaultsOf(c).Handle(slow)
	env.FaultsOf(c).HandleJournal(slow)
}

// writeStreams has clients overwrite rows of their own once, so that each has streams with garbage.
func writeStreams(t *testing.T, ctx context.Context, env *percolatortest.Env, clients, rows int) {
	t.Helper()
	for i := range clients {
		c := env.NewClient(fixture.ShortRetention)
		for range 2 {
			for j := range rows {
				fixture.Put(t, ctx, c, fmt.Sprintf("%d-%d", i, j), "c", "v")
			}
		}
		fixture.Must(t, c.Flush(ctx))
	}
}

// copyRow writes a row of the journal with entries again, with a greater number, as a copy that
// arrives now.
func copyRow(t *testing.T, ctx context.Context, env *percolatortest.Env) (key string) {
	t.Helper()
	tbl := env.Store().Open("percolator_journal")
	var batch []byte
	fixture.Must(t, tbl.ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		for _, it := range r["journal"] {
			if it.Column == "journal:batch" {
				key, batch = r.Key(), it.Value
				return false
			}
		}
		return true
	}))
	if batch == nil {
		t.Fatal("the journal is empty")
	}
	key = key[:23] + "\x7f\x01"
	mut := bigtable.NewMutation()
	mut.Set("journal", "batch", 1000, batch)
	fixture.Must(t, tbl.Apply(ctx, key, mut))
	return key
}

// wantParked asserts how many rows of the journal list parked observers, and how many cells the
// notify family of table t has.
func wantParked(t *testing.T, ctx context.Context, env *percolatortest.Env, listed, cells int) {
	t.Helper()
	n := fixture.CountJournal(t, ctx, env).Parked
	if got := fixture.CellsOf(t, ctx, env, "t", "notify"); n != listed || got != cells {
		t.Errorf("%d rows of the journal list parked observers, beside %d notify cells; want %d and %d", n, got, listed, cells)
	}
}

// skipNotifications has an audit pass over notifications that nobody has dealt with.
func skipNotifications(cfg *model.AuditConfig) { cfg.SkipNotifications = true }

// numbered has the requests of a client handled by their numbers. Reads of the meta table have
// none: a client makes some by itself, at any time.
func numbered(env *percolatortest.Env, c *percolator.Client, handle func(seq int, method string) percolatortest.Action) {
	var mu sync.Mutex
	sent := 0
	handler := func(r percolatortest.Request) percolatortest.Action {
		mu.Lock()
		defer mu.Unlock()
		if r.Table == "percolator_meta" && r.Method == percolatortest.ReadRows {
			return percolatortest.Pass
		}
		sent++
		return handle(sent-1, r.Method)
	}
	env.FaultsOf(c).Handle(handler)
	env.FaultsOf(c).HandleJournal(handler)
}

// atEveryRequest runs a test of a collector whose requests are numbered, at least some of them,
// without a fault; then each is its last, and each write gets lost, or its answer does.
func atEveryRequest(t *testing.T, name string, least int, run func(t *testing.T, fault func(seq int, method string) percolatortest.Action)) {
	t.Helper()
	var methods []string
	percolatortest.Bubble(t, func(t *testing.T) {
		run(t, func(_ int, method string) percolatortest.Action {
			methods = append(methods, method)
			return percolatortest.Pass
		})
	})
	if len(methods) < least {
		t.Fatalf("the cycle has %d requests: there is too little to do", len(methods))
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
					run(t, func(seq int, _ string) percolatortest.Action {
						if seq == at {
							return fault
						}
						return percolatortest.Pass
					})
				})
			})
		}
	}
}
