package watch_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/percolator/watch"
)

// A watcher whose table is dropped says so: its consumer would keep for good what is gone.
func TestWatcherOfATableThatIsDropped(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}, {Name: "gone"}}})
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		put := func(table, value string) {
			fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
				return tx.Set(percolator.Cell{Table: table, Row: "r", Column: "c"}, []byte(value))
			}))
		}
		from := now(t, ctx, env.Oracle)
		put("gone", "1")
		put("t", "1")
		dropped := make(chan bool)
		other := env.NewClient()
		go func() {
			time.Sleep(10 * time.Second)
			_, err := admin.New(other).DropFromSchema(ctx, &percolator.Schema{Timing: other.Schema().Timing, Tables: []percolator.Table{{Name: "t"}}}, admin.DropOptions{ClientOptions: env.Options()})
			fixture.Must(t, err)
			put("t", "2")
			close(dropped)
		}()
		cfg := config(from, watch.Column{Table: "t"}, watch.Column{Table: "gone"})
		cfg.Interval = time.Second
		var seen []watch.Change
		watching, stop := context.WithTimeout(ctx, 20*time.Minute)
		defer stop()
		for b, err := range watch.Changes(watching, env.Client, cfg) {
			if err != nil {
				fixture.WantErr(t, err, percolator.ErrSchemaMismatch)
				if shown(seen) != "r.c=1 r.c=1" {
					t.Errorf("before: %s", shown(seen))
				}
				<-dropped
				return
			}
			seen = append(seen, b.Changes...)
		}
		<-dropped
		t.Errorf("the watcher goes on as if the table were there: %s", shown(seen))
	})
}

// The same for a declared column, whose former values are deleted after it has left the schema.
func TestWatcherOfAColumnThatIsDropped(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		columns := func(names ...string) *percolator.Schema {
			table := percolator.Table{Name: "t"}
			for _, n := range names {
				table.Columns = append(table.Columns, percolator.ColumnSchema{Name: n})
			}
			return &percolator.Schema{Tables: []percolator.Table{table}}
		}
		env := percolatortest.New(t, columns("stays", "gone"))
		ctx := context.Background()
		from := now(t, ctx, env.Oracle)
		one, all := config(from, watch.Column{Table: "t", Name: "gone"}), config(from, watch.Column{Table: "t"})
		one.Interval, all.Interval = time.Second, time.Second
		gone, both := follow(t, ctx, env.Client, one), follow(t, ctx, env.Client, all)
		fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
			return tx.Set(percolator.Cell{Table: "t", Row: "r", Column: "gone"}, []byte("1"))
		}))
		other := env.NewClient()
		_, err := admin.New(other).DropFromSchema(ctx, columns("stays"), admin.DropOptions{ClientOptions: env.Options()})
		fixture.Must(t, err)
		<-gone.done
		_, _, err = gone.seen()
		fixture.WantErr(t, err, percolator.ErrSchemaMismatch)
		both.reaches(t, now(t, ctx, env.Oracle), "r.gone=1 r.gone")
	})
}
