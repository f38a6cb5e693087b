package watch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/percolator/watch"
	"github.com/gopercolator/percolator/tso"
)

// A consumer stores each batch with its position and dies, again and again, often within a
// transaction. Meanwhile the transaction's values expire, its cells are overwritten, a collector
// works, and other transactions commit. It sees each change once, and no cell's changes out of
// order.
func TestEachChangeOnceWhileValuesExpire(t *testing.T) {
	for _, seed := range fixture.Chosen(1, 4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) { testEachChangeOnce(t, uint64(seed)) })
		})
	}
}

func testEachChangeOnce(t *testing.T, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 9))
	s := fixture.Schema()
	s.Tables[0].TTL = 40 * time.Second
	env := percolatortest.New(t, s)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cfg := config(now(t, ctx, env.Oracle), watch.Column{Table: "t"})
	cfg.Interval = time.Second
	named := seed%2 == 0
	if cfg.HoldTTL = time.Hour; named {
		cfg.Name = "consumer"
	}
	g, err := admin.New(env.NewClient(percolatortest.Configure(withRetention))).NewCollector(admin.CollectorConfig{Interval: 20 * time.Second})
	fixture.Must(t, err)
	var background sync.WaitGroup
	background.Go(func() { _ = g.Run(ctx) })

	type version struct {
		cell   percolator.Cell
		commit tso.Timestamp
	}
	var mu sync.Mutex
	written, last := map[version]bool{}, tso.Timestamp(0)
	writers, writer := env.NewClient(), sync.WaitGroup{}
	writer.Go(func() {
		dice := rand.New(rand.NewPCG(seed, 10))
		for range 12 {
			n := 1 + dice.IntN(3)
			if dice.IntN(3) == 0 {
				n = watch.MaxBatchChanges + dice.IntN(2*watch.MaxBatchChanges)
			}
			from := dice.IntN(40)
			at, err := writers.Update(ctx, func(_ context.Context, tx *percolator.Txn) (err error) {
				for i := range n {
					cell := fixture.Cell(fmt.Sprintf("r%03d", (from+i)/20), fmt.Sprintf("c%02d", (from+i)%20))
					if i%7 == 3 {
						err = errors.Join(err, tx.Delete(cell))
					} else {
						err = errors.Join(err, tx.Set(cell, []byte("v")))
					}
				}
				return err
			})
			fixture.Must(t, err)
			mu.Lock()
			for i := range n {
				written[version{fixture.Cell(fmt.Sprintf("r%03d", (from+i)/20), fmt.Sprintf("c%02d", (from+i)%20)), at}] = true
			}
			last = at
			mu.Unlock()
			time.Sleep(time.Duration(dice.IntN(30)) * time.Second)
		}
	})
	seen, newest := map[version]int{}, map[percolator.Cell]tso.Timestamp{}
	if !named { // a hold of its own, as the collector would take what the consumer has not seen
		fixture.Must(t, fixture.ErrOf(admin.New(env.Client).TakeHold(ctx, 0, 24*time.Hour, "test")))
	}
	for lives := 0; ; lives++ {
		dealt := 0
		for b, err := range watch.Changes(ctx, env.Client, cfg) {
			fixture.Must(t, err)
			if dealt > 0 && (named || dice.IntN(2) == 0) { // the position of a name is stored
				break
			}
			for _, c := range b.Changes {
				v := version{c.Cell, c.CommitTS}
				if seen[v]++; seen[v] > 1 {
					t.Fatalf("life %d: %v twice", lives, v)
				}
				if c.CommitTS < newest[c.Cell] {
					t.Fatalf("life %d: %v after %d", lives, v, newest[c.Cell])
				}
				newest[c.Cell] = c.CommitTS
			}
			if dealt++; !named {
				fixture.Must(t, cfg.From.UnmarshalText([]byte(b.Position.String())))
			}
		}
		if named {
			cfg.From = watch.Position{}
		}
		time.Sleep(time.Duration(dice.IntN(50)) * time.Second)
		mu.Lock()
		ended := len(written) > 0 && len(seen) == len(written) && lives > 40
		missing := len(written) - len(seen)
		mu.Unlock()
		if ended {
			break
		}
		if lives == 400 {
			t.Fatalf("after %d lives %d changes up to %d are missing", lives, missing, last)
		}
	}
	writer.Wait()
	for v := range written {
		if seen[v] != 1 {
			t.Fatalf("%v was seen %d times", v, seen[v])
		}
	}
	stop()
	background.Wait()
}
