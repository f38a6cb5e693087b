package gc

import (
	"strconv"
	"testing"

	"github.com/gopercolator/percolator/internal/catalog"
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

// What means nothing in one row is erased by as many requests as that takes.
func TestStraysOfOneRowAreDivided(t *testing.T) {
	t.Parallel()
	info, _ := catalog.New(&model.Schema{Tables: []model.Table{{Name: "t"}}}).UserTable("t")
	p := model.Pending{Table: "t", Row: "r"}
	for i := range model.MaxMutationsPerRow + 1 {
		p.Notified = append(p.Notified, model.Notification{Cell: model.Cell{Table: "t", Row: "r", Column: strconv.Itoa(i)}, Timestamp: 5})
	}
	erased := 0
	for _, m := range stray(info, p, 9) {
		if n := len(m.Mut.Changes()); n > model.MaxMutationsPerRow || m.Table != "t" || m.Row != "r" {
			t.Errorf("%d changes to row %s of %s", n, m.Row, m.Table)
		}
		erased += len(m.Mut.Changes())
	}
	if erased != len(p.Notified) {
		t.Errorf("%d of %d are erased", erased, len(p.Notified))
	}
}
