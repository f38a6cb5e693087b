package percolator_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Phase two of a large transaction meets a tablet that does not answer: there are more rows than it
// has places, and more than may wait in the background. The transaction has committed: the caller
// hears of it soon, and nothing is lost, also if the client closes then.
func TestLargeCommitBesideAStalledTablet(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env := fixture.NewEnv(t)
		ctx, c, stalled := context.Background(), env.NewClient(), percolatortest.NewHold()
		var committed time.Time
		env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
			switch {
			case r.Table == "t" && fixture.IsCommit(r):
				committed = time.Now()
			case r.Table == "u" && r.Method == percolatortest.MutateRows:
				return stalled
			}
			return percolatortest.Pass
		})
		const rows = 24_000 // 4,096 have places, 16,384 wait
		tx := fixture.MustBegin(t, ctx, c)
		fixture.Must(t, tx.Set(fixture.Cell("primary", "c"), []byte("v")))
		for i := range rows {
			fixture.Must(t, tx.Set(percolator.Cell{Table: "u", Row: fixture.Key(i), Column: "c"}, []byte("v")))
		}
		fixture.MustCommit(t, ctx, tx)
		if took := time.Since(committed); took > time.Second+rows/4*time.Millisecond {
			t.Errorf("Commit returned %v after the commit point", took)
		}
		closed := make(chan error, 1)
		go func() { closed <- c.Close() }()
		s, err := env.Client.Snapshot(ctx)
		fixture.Must(t, err)
		n := 0
		for _, err := range s.Scan(ctx, "u", percolator.All()) {
			fixture.Must(t, err)
			n++
		}
		if n != rows {
			t.Errorf("%d of %d rows are there", n, rows)
		}
		stalled.Release()
		fixture.Must(t, <-closed)
	})
}
