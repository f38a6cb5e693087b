package watch_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/percolator/watch"
)

// A consumer that stores each batch together with its position, and dies after each batch, sees
// each change once, also of a transaction that fills several batches. So does one with a name that
// asks for no more than one batch.
func TestEachChangeOnceOfALargeTransaction(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		ctx := fixture.Context(t)
		env := fixture.NewEnv(t)
		from := now(t, ctx, env.Oracle)
		fixture.Put(t, ctx, env.Client, "a", "c", "begin")
		const n = 2*watch.MaxBatchChanges + 500
		fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
			for i := range n {
				if err := tx.Set(fixture.Cell(fmt.Sprintf("r%05d", i), "c"), []byte("v")); err != nil {
					return err
				}
			}
			return nil
		}))
		fixture.Must(t, env.Client.Flush(ctx))
		last := fixture.Put(t, ctx, env.Client, "z", "c", "end")
		for _, name := range []string{"", "a consumer"} {
			seen, at := map[percolator.Cell]int{}, watch.At(from)
			cfg := config(from)
			cfg.Name, cfg.Interval = name, 20*time.Millisecond
			for lives := 0; at.Timestamp() < last; lives++ {
				if lives == 10 {
					t.Fatalf("%q: after %d lives the consumer is at %d, below %d, and has seen %d cells, the first of them %d times",
						name, lives, at.Timestamp(), last, len(seen), seen[fixture.Cell("r00000", "c")])
				}
				dealt := false
				for b, err := range watch.Changes(ctx, env.Client, cfg) {
					fixture.Must(t, err)
					if dealt { // the name's position is stored
						break
					}
					for _, c := range b.Changes {
						seen[c.Cell]++
					}
					at, dealt = b.Position, len(b.Changes) > 0
					if name == "" && dealt {
						break
					}
				}
				if cfg.From = (watch.Position{}); name == "" {
					fixture.Must(t, cfg.From.UnmarshalText([]byte(at.String())))
				}
			}
			twice := 0
			for _, times := range seen {
				if times > 1 {
					twice++
				}
			}
			if twice > 0 || len(seen) != n+2 {
				t.Errorf("%q: %d of %d changes were seen, %d of them more than once", name, len(seen), n+2, twice)
			}
		}
	})
}

// A position within a transaction is worth its timestamp to a watcher of other columns, and text
// that was cut is none.
func TestPositionWithinATransaction(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	from := now(t, ctx, env.Oracle)
	const n = watch.MaxBatchChanges + 1
	tx := fixture.MustBegin(t, ctx, env.Client)
	for i := range n {
		fixture.Must(t, tx.Set(fixture.Cell(fmt.Sprintf("r%05d", i), "c"), []byte("v")))
	}
	last := fixture.MustCommit(t, ctx, tx)
	cfg := config(from)
	for b, err := range watch.Changes(ctx, env.Client, cfg) {
		fixture.Must(t, err)
		if cfg.From = b.Position; len(b.Changes) > 0 {
			break
		}
	}
	if all, _ := until(t, ctx, env.Client, cfg, last); len(all) != 1 {
		t.Errorf("%d changes follow", len(all))
	}
	cfg.Columns = append(cfg.Columns, watch.Column{Table: "t", Name: "other"})
	if all, _ := until(t, ctx, env.Client, cfg, last); len(all) != n {
		t.Errorf("%d changes of other columns follow, want %d", len(all), n)
	}
	text := cfg.From.String()
	for cut := strings.LastIndex(text, ".") + 2; cut < len(text); cut++ {
		var p watch.Position
		if err := p.UnmarshalText([]byte(text[:cut])); err == nil && p.String() == text {
			t.Errorf("%q is the same position", text[:cut])
		}
	}
}
