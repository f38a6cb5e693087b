package admin_test

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
	"github.com/gopercolator/percolator/tso"
)

// Clients that know a schema sooner and later write values that live for some time, while the time
// to live changes, and an index is added and filled. From then on the index shows in every snapshot
// what the table does, with the same expiries (I27).
func TestIndexAgainstTableWithChangingTTLs(t *testing.T) {
	fixture.Long(t)
	for seed := range uint64(24) {
		if seed >= 4 && !fixture.Sampled(fmt.Sprint(seed)) {
			continue
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) { testIndexAgainstTable(t, seed) })
		})
	}
}

func testIndexAgainstTable(t *testing.T, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 27))
	ttl := time.Duration(dice.IntN(2)) * time.Minute
	env := percolatortest.New(t, mailSchema(nil, ttl, false))
	ctx, c := context.Background(), env.Client
	clients := []*percolator.Client{c, env.NewClient(), env.NewClient()}
	write := func(dice *rand.Rand, from *percolator.Client) {
		n, own := dice.IntN(3), dice.IntN(2) == 0
		row, value := fmt.Sprint("row", n), fmt.Sprint("value", n)
		if !own { // which is put again and again
			value = fmt.Sprint("value", dice.IntN(4))
		}
		err := fixture.Update(ctx, from, func(tx *percolator.Txn) error {
			switch dice.IntN(8) {
			case 0:
				return fixture.Mail.Delete(tx, row)
			case 1, 2:
				if _, err := fixture.Mail.GetOr(ctx, tx, row, ""); err != nil {
					return err
				}
			}
			return fixture.Mail.Set(tx, row, value)
		})
		if err != nil && !errors.Is(err, percolator.ErrUnique) {
			t.Error(err)
		}
	}
	// Some seconds of writes of all clients, more than one at a time.
	run := func(d time.Duration) (ended func()) {
		var writers sync.WaitGroup
		until := time.Now().Add(d)
		for _, from := range clients {
			dice := rand.New(rand.NewPCG(dice.Uint64(), 1))
			writers.Go(func() {
				for time.Now().Before(until) {
					write(dice, from)
					time.Sleep(time.Duration(dice.IntN(20_000)) * time.Millisecond)
				}
			})
		}
		return writers.Wait
	}
	run(time.Minute)()
	// The values get, or change, their life while not all clients know.
	ended := run(2 * time.Minute)
	if dice.IntN(2) == 0 {
		ttl = time.Duration(1+dice.IntN(3)) * 50 * time.Second
		learnSchema(t, ctx, env, clients[dice.IntN(3)], mailSchema(c, ttl, false))
	}
	time.Sleep(time.Duration(dice.IntN(60)) * time.Second)
	learnSchema(t, ctx, env, clients[dice.IntN(3)], mailSchema(c, ttl, true))
	if _, err := admin.New(c).BackfillIndex(ctx, "people", "mail", admin.BackfillOptions{}); err != nil && !errors.Is(err, percolator.ErrUnique) {
		t.Fatal(err)
	}
	ended()
	for errors.Is(fixture.ErrOf(admin.New(c).BackfillIndex(ctx, "people", "mail", admin.BackfillOptions{})), percolator.ErrUnique) {
		// Rows of before the index share a value; all but one go.
		for _, row := range []string{"row1", "row2"} {
			fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return fixture.Mail.Delete(tx, row) }))
		}
	}
	time.Sleep(time.Minute) // until all clients know that the index is ready
	for range 40 {
		switch dice.IntN(6) {
		case 0:
			if ttl > 0 || dice.IntN(2) == 0 {
				ttl = time.Duration(1+dice.IntN(4)) * 40 * time.Second
				learnSchema(t, ctx, env, clients[dice.IntN(3)], mailSchema(c, ttl, true))
			}
			for range 20 { // before all clients know
				write(dice, clients[dice.IntN(3)])
			}
		case 1:
			time.Sleep(time.Duration(dice.IntN(90)) * time.Second)
		default:
			write(dice, clients[dice.IntN(3)])
			time.Sleep(time.Duration(dice.IntN(5)) * time.Second)
		}
		wantIndexAsTable(t, ctx, c)
		if t.Failed() {
			return
		}
	}
}

func wantIndexAsTable(t *testing.T, ctx context.Context, c *percolator.Client) {
	t.Helper()
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	type found struct {
		row, value string
		expires    tso.Timestamp
	}
	table, index := map[found]int{}, map[found]int{}
	for e, err := range s.Scan(ctx, "people", percolator.All(), "mail") {
		fixture.Must(t, err)
		table[found{e.Cell.Row, string(e.Value), e.Expires}]++
	}
	for e, err := range s.ScanIndex(ctx, "people", "mail", percolator.All()) {
		fixture.Must(t, err)
		index[found{e.Cell.Row, string(e.Value), e.Expires}]++
	}
	if fmt.Sprint(table) != fmt.Sprint(index) {
		t.Errorf("at %v the table shows %v, and the index %v", time.Now(), table, index)
	}
}
