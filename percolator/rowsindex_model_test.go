package percolator_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Rows by an index are those that a map of the same rows has, whatever a transaction has written
// and deleted before it looks, in both directions and to any limit.
func TestRowsByIndexAgainstAModel(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env := fixture.NewEnv(t)
		ctx, rows := fixture.Context(t), people(t)
		model := map[string]citizen{}
		cities := []string{"Bern", "Oslo", "Oslo\x00", "Rome"}
		for seed := range uint64(20) {
			rnd := rand.New(rand.NewPCG(seed, 40))
			tx := fixture.MustBegin(t, ctx, env.Client)
			mine := maps.Clone(model)
			for range 1 + rnd.IntN(40) {
				key := fmt.Sprintf("p%02d", rnd.IntN(30))
				if _, there := mine[key]; there && rnd.IntN(3) == 0 {
					fixture.Must(t, rows.Delete(tx, key))
					delete(mine, key)
				} else {
					p := citizen{Key: key, Mail: fmt.Sprint(key, "@", seed, rnd.IntN(3)), Name: fmt.Sprint(seed), City: cities[rnd.IntN(len(cities))]}
					fixture.Must(t, rows.Put(tx, p))
					mine[key] = p
				}
				if rnd.IntN(8) > 0 {
					continue
				}
				from, to := cities[rnd.IntN(len(cities))], cities[rnd.IntN(len(cities))]
				if from > to {
					from, to = to, from
				}
				o := percolator.ScanOptions{Index: "city", Rows: []percolator.Range{percolator.Between(from, to)}, Reverse: rnd.IntN(2) == 0, Limit: rnd.IntN(6)}
				got := keysOf(t, rows.ScanWith(ctx, tx, o))
				if want := listedBy(mine, from, to, o.Reverse, o.Limit); got != want {
					t.Fatalf("seed %d: %+v: %q, want %q", seed, o, got, want)
				}
			}
			if rnd.IntN(4) > 0 {
				fixture.MustCommit(t, ctx, tx)
				model = mine
			} else {
				fixture.Must(t, tx.Rollback(ctx))
			}
		}
	})
}

func listedBy(people map[string]citizen, from, to string, reverse bool, limit int) string {
	found := slices.Collect(maps.Values(people))
	found = slices.DeleteFunc(found, func(p citizen) bool { return p.City < from || to != "" && p.City >= to })
	slices.SortFunc(found, func(a, b citizen) int { return cmp.Or(cmp.Compare(a.City, b.City), cmp.Compare(a.Key, b.Key)) })
	if reverse {
		slices.Reverse(found)
	}
	var keys []string
	for _, p := range found {
		if limit == 0 || len(keys) < limit {
			keys = append(keys, p.Key+"="+p.Name)
		}
	}
	return strings.Join(keys, " ")
}
