package admin_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// TestInspectAgreesWithReaders: after histories with transactions that died at every point, whoever
// reads at a timestamp finds what an inspection has said about it before, although the inspection
// has resolved nothing.
func TestInspectAgreesWithReaders(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			env, ctx := fixture.NewEnv(t), fixture.Context(t)
			rng := rand.New(rand.NewPCG(seed, 7))
			cells := []percolator.Cell{fixture.Cell("r", "a"), fixture.Cell("r", "b"), fixture.Cell("r", "seen"), fixture.Cell("s", "a")}
			instants := randomHistory(t, env, rng, cells)
			env.Clock.Advance(fixture.LockTTL) // so that readers need not wait
			c := env.NewClient()
			check := untouched(t, ctx, env, c, "t")
			views := map[tso.Timestamp]map[percolator.Cell]admin.ReaderView{}
			for _, ts := range instants {
				views[ts] = map[percolator.Cell]admin.ReaderView{}
				for _, row := range []string{"r", "s"} {
					in := mustInspect(t, ctx, c, row, admin.InspectOptions{AsOf: ts, Values: true, Versions: 1 + rng.IntN(4)})
					for _, col := range in.Columns {
						views[ts][fixture.Cell(row, col.Column)] = col.Reader
					}
				}
			}
			check()
			values := 0
			for _, ts := range instants {
				snap, err := c.Snapshot(ctx, percolator.AsOfTimestamp(ts))
				fixture.Must(t, err)
				for _, at := range cells {
					value, err := snap.Get(ctx, at)
					view := views[ts][at]
					switch {
					case errors.Is(err, percolator.ErrNotFound):
						if view.State != "" && view.State != admin.ReaderAbsent && view.State != admin.ReaderDeleted {
							t.Errorf("%s at %d: nothing, the inspection said %+v", at, ts, view)
						}
					case err != nil:
						t.Fatal(err)
					case view.State != admin.ReaderValue || string(view.Value) != string(value):
						t.Errorf("%s at %d: %q, the inspection said %+v", at, ts, value, view)
					default:
						values++
					}
				}
			}
			if values == 0 {
				t.Error("no reader has found anything: the history is too short")
			}
		})
	}
}

// randomHistory commits, deletes, locks and crashes, and returns instants at which reads may
// differ.
func randomHistory(t *testing.T, env *percolatortest.Env, rng *rand.Rand, cells []percolator.Cell) (instants []tso.Timestamp) {
	t.Helper()
	ctx := fixture.Context(t)
	for i := range 16 {
		dies := rng.IntN(3)
		client := env.Client
		if dies != 2 {
			client = env.NewClient()
		}
		tx := fixture.MustBegin(t, ctx, client)
		for _, j := range rng.Perm(len(cells))[:1+rng.IntN(len(cells))] {
			switch rng.IntN(4) {
			case 0:
				fixture.Must(t, tx.Delete(cells[j]))
			case 1:
				if _, err := tx.GetForUpdate(ctx, cells[j]); err != nil && !errors.Is(err, percolator.ErrNotFound) {
					t.Fatal(err)
				}
			default:
				fixture.Must(t, tx.Set(cells[j], fmt.Appendf(nil, "value %d", i)))
			}
		}
		committed := false
		env.FaultsOf(client).Handle(func(r percolatortest.Request) percolatortest.Action {
			if committed || dies == 0 && fixture.IsCommit(r) {
				return percolatortest.Crash
			}
			committed = dies == 1 && fixture.IsCommit(r)
			return percolatortest.Pass
		})
		commit, err := tx.Commit(ctx)
		if dies == 2 {
			fixture.Must(t, err)
			fixture.Must(t, client.Flush(ctx))
		}
		instants = append(instants, tx.StartTimestamp())
		if err == nil {
			instants = append(instants, commit-1, commit)
		}
		if dies != 2 {
			env.Clock.Advance(fixture.LockTTL) // the next one can get past the locks, and resolves some
		}
	}
	return instants
}
