package watch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/percolator/watch"
)

// A consumer begins at its position again, with one more table. It gets what commits there above
// the position, also what had started before.
func TestPositionWithOtherColumns(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env := fixture.NewEnv(t)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		slow := env.NewClient()
		var goOn atomic.Bool
		env.FaultsOf(slow).Handle(func(r percolatortest.Request) percolatortest.Action {
			if fixture.IsPrewrite(r) && r.Table == "people" && !goOn.Load() {
				return percolatortest.LoseRequest // which is sent again
			}
			return percolatortest.Pass
		})
		from := now(t, ctx, env.Oracle)
		done := make(chan error, 1)
		go func() {
			done <- fixture.Update(ctx, slow, func(tx *percolator.Txn) error {
				return tx.Set(percolator.Cell{Table: "people", Row: "r", Column: "city"}, []byte("Bonn"))
			})
		}()
		time.Sleep(2 * time.Second) // virtual: its entry is in the journal
		fixture.Put(t, ctx, env.Client, "r", "c", "1")
		cfg := config(from)
		cfg.Interval = 20 * time.Millisecond // rounds are what virtual time costs
		_, at := until(t, ctx, env.Client, cfg, now(t, ctx, env.Oracle))
		goOn.Store(true)
		fixture.Must(t, <-done)
		fixture.Must(t, slow.Flush(ctx))
		last := fixture.Put(t, ctx, env.Client, "r", "c", "2")
		cfg.Columns = append(cfg.Columns, watch.Column{Table: "people"})
		for _, from := range []watch.Position{watch.At(at.Timestamp()), at} {
			cfg.From = from
			if got, _ := until(t, ctx, env.Client, cfg, last); shown(got) != "r.city=Bonn r.c=2" {
				t.Errorf("from %v: %q", from, shown(got))
			}
		}
	})
}
