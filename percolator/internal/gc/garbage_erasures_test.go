package gc

import (
	"strconv"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// What one row loses in a cycle fits into one request.
func TestErasuresOfOneRowAreLimited(t *testing.T) {
	t.Parallel()
	row := layout.RowVersions{}
	for i := range model.MaxMutationsPerRow + 1 {
		row["c"+strconv.Itoa(i)] = &layout.Versions{Writes: []layout.WriteRecord{{CommitTS: 20, StartTS: 10, Kind: layout.KindDelete}}}
	}
	g := collectible(row, tso.Timestamp(100))
	if n := g.eraseUnobserved(nil); n != model.MaxMutationsPerRow+1 {
		t.Errorf("%d tombstones are removed", n)
	}
	g.limit()
	if len(g.erasures) != maxErasures || g.postponed != model.MaxMutationsPerRow+1-maxErasures {
		t.Errorf("%d erasures, %d postponed", len(g.erasures), g.postponed)
	}
}
