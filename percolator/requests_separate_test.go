package percolator_test

import (
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// What comparisons compare with: without batching a request reads one row, without prefetch one
// column, with neither one cell. The answers are the same. Nothing is read ahead without prefetch,
// however often it would have been of use.
func TestReadsWithoutBatchingAndPrefetch(t *testing.T) {
	t.Parallel()
	const rows = 3
	columns := []string{"c", "d"}
	for _, v := range []struct {
		batching, prefetch bool
		want               int // ReadRows for all cells in one call
	}{{true, true, 1}, {true, false, 2}, {false, true, 3}, {false, false, 6}} {
		t.Run(fmt.Sprintf("batching=%v,prefetch=%v", v.batching, v.prefetch), func(t *testing.T) {
			t.Parallel()
			env := fixture.NewEnv(t, percolatortest.Configure(func(cfg *percolator.Config) {
				cfg.DisableBatching, cfg.DisablePrefetch = !v.batching, !v.prefetch
			}))
			ctx, c := fixture.Context(t), env.Client
			var cells []percolator.Cell
			for i := range rows {
				for _, col := range columns {
					cells = append(cells, fixture.Cell(fixture.Key(i), col))
					fixture.Put(t, ctx, c, fixture.Key(i), col, fmt.Sprint(i, col))
				}
			}
			fixture.Must(t, c.Flush(ctx))
			env.FaultsOf(c).Forget()
			s, err := c.Snapshot(ctx)
			fixture.Must(t, err)
			got, err := s.GetMulti(ctx, cells...)
			fixture.Must(t, err)
			for i, value := range got {
				if want := fmt.Sprint(i/len(columns), columns[i%len(columns)]); string(value) != want {
					t.Errorf("%v: %q, want %q", cells[i], value, want)
				}
			}
			if n := fixture.Tally(env, c)["ReadRows"]; n != v.want {
				t.Errorf("%d ReadRows, want %d", n, v.want)
			}
			if v.prefetch {
				return
			}
			const often = 40
			env.FaultsOf(c).Forget()
			for range often {
				s, err := c.Snapshot(ctx)
				fixture.Must(t, err)
				fixture.Must(t, fixture.ErrOf(s.Get(ctx, cells[0])))
				fixture.Must(t, fixture.ErrOf(s.Get(ctx, cells[1])))
			}
			if n := fixture.Tally(env, c)["ReadRows"]; n != 2*often {
				t.Errorf("%d ReadRows for %d cells", n, 2*often)
			}
		})
	}
}
