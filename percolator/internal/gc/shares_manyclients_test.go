package gc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// inOneShard is how many streams of one row nearly fill a share of a collection: 64 times as many
// clients have committed once between two cycles. A filter could name some 215 streams.
const inOneShard = 850

// Tens of thousands of clients that committed once each between two cycles: a share of the
// collection is longer than what a filter can hold twice. It is taken, saved and ended, whether it
// holds all of them (J10) or, beyond its limit, leaves some to the next cycle.
func TestCollectionAfterThousandsOfClients(t *testing.T) {
	t.Parallel()
	for streams, cycles := range map[int]int{230: 1, inOneShard: 1, inOneShard + 100: 2} {
		t.Run(fmt.Sprint(streams), func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				env := fixture.NewCollectorEnv(t)
				ctx, c := fixture.Context(t), env.Client
				fixture.Put(t, ctx, c, "r", "c", "old")
				fixture.CopyStreams(t, ctx, env, streams)
				fixture.Put(t, ctx, c, "r", "c", "new")
				g := fixture.NewCollector(t, c, model.CollectorConfig{RowsPerSecond: 1_000_000})
				for cycle := 1; ; cycle++ {
					env.Clock.Advance(fixture.PastRetention)
					fixture.Must(t, fixture.ErrOf(g.Collect(ctx)))
					left := fixture.CountJournal(t, ctx, env).Entries
					if (left == 0) != (cycle >= cycles) {
						t.Errorf("after %d cycles %d rows of streams are left", cycle, left)
					}
					if cycle == cycles {
						break
					}
				}
				env.Audit(t, fixture.Collected)
			})
		})
	}
}

// metaCell is a cell of percolator_meta.
func metaCell(t testing.TB, ctx context.Context, env *percolatortest.Env, row, column string) []byte {
	t.Helper()
	r, err := env.Store().Open("percolator_meta").ReadRow(ctx, row)
	fixture.Must(t, err)
	for _, it := range r["meta"] {
		if it.Column == "meta:"+column {
			return it.Value
		}
	}
	return nil
}

// An instance that is stuck, because a collector of an earlier version has stored a share that it
// could not replace, or a state, gets free by itself (J10).
func TestCollectionThatAnEarlierVersionHasStuck(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env := fixture.NewCollectorEnv(t)
		ctx, c := fixture.Context(t), env.Client
		fixture.Put(t, ctx, c, "r", "c", "old")
		fixture.Put(t, ctx, c, "r", "c", "new")
		env.Clock.Advance(fixture.PastRetention)
		g := fixture.NewCollector(t, c, model.CollectorConfig{})
		fixture.Must(t, fixture.ErrOf(g.Collect(ctx)))

		m, err := c.Engine().Meta.Refresh(ctx)
		fixture.Must(t, err)
		type stream struct {
			ID   []byte
			Rows []uint64
		}
		share := struct {
			Watermark, Asked tso.Timestamp
			Streams          []stream
		}{Watermark: m.Watermark, Asked: m.Watermark}
		for i := range 300 {
			share.Streams = append(share.Streams, stream{fmt.Appendf(nil, "\x07%016d", i), []uint64{1, 1}})
		}
		shares, err := json.Marshal(share)
		fixture.Must(t, err)
		tables := map[string]any{}
		for i := range 400 {
			tables[fmt.Sprintf("table-%03d-of-many", i)] = map[string]any{"Row": []byte("a row")}
		}
		state, err := json.Marshal(map[string]any{"Phase": model.CollectionErase, "Safepoint": m.Watermark, "ByJournal": true, "Tables": tables})
		fixture.Must(t, err)
		if min(len(shares), len(state)) < 11_000 {
			t.Fatalf("%d and %d bytes are not too long", len(shares), len(state))
		}
		fixture.Plant(t, ctx, env, "percolator_meta", "collector", "meta", "state", 1000, string(state))
		fixture.Plant(t, ctx, env, "percolator_meta", "collector", "meta", "share-07", 1000, string(shares))

		fixture.Put(t, ctx, c, "r", "c", "newer")
		env.Clock.Advance(fixture.PastRetention)
		col, err := g.Collect(ctx)
		if err != nil || col.Phase != model.CollectionDone || col.Versions == 0 {
			t.Errorf("%+v, %v", col, err)
		}
		if b := metaCell(t, ctx, env, "collector", "share-07"); b != nil {
			t.Errorf("a share of %d bytes is left", len(b))
		}
		env.Audit(t, fixture.Collected)
	})
}
