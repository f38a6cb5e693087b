package simulated_test

import (
	"slices"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// query is one of a random shape, and a table that it may be asked of.
func (p *pair) query() (table string, q store.Query) {
	q = p.shaped()
	p.covered[q.Shape] = true
	if p.rand.IntN(30) == 0 {
		return "none", q
	}
	switch q.Shape.Table() {
	case model.JournalTable:
		return journalTable, q
	case model.MetaTable:
		return metaTable, q
	}
	return "t", q
}

func (p *pair) columns() (out []string) {
	for range p.rand.IntN(7) {
		out = append(out, p.column())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (p *pair) ranges() catalog.Ranges {
	return catalog.Union(model.Row(p.column()), model.Prefix(pick(p.rand, "a", "b", "hold")), model.Between("x", ""))
}

func (p *pair) shaped() store.Query {
	column, other, at, n, flag := p.column(), p.column(), p.at(), 1+p.rand.IntN(3), p.rand.IntN(2) == 0
	bound := pick(p.rand, at, 0)
	return pick(p.rand, []func() store.Query{
		func() store.Query { return store.Newest(p.columns(), bound, n) },
		func() store.Query { return store.Newest(p.columns(), bound, n).OnlyChanges() },
		func() store.Query { return store.Changes(p.columns(), at+1) },
		func() store.Query { return store.NewestIn(p.ranges(), bound, n) },
		func() store.Query { return store.WholeRow(bound, n) },
		func() store.Query { return store.WholeRow(bound, n).OnlyChanges() },
		func() store.Query { return store.Data(store.Version{Column: column, StartTS: at}) },
		func() store.Query {
			return store.Data(store.Version{Column: column, StartTS: at}, store.Version{Column: column, StartTS: at + 1})
		},
		func() store.Query { return store.HasData(column, at) },
		func() store.Query { return store.HeldLock(column, at) },
		func() store.Query { return store.Record(column, at) },
		func() store.Query { return store.Primary(column, at) },
		func() store.Query { return store.Conflict(append(p.columns(), "zz"), at, flag) },
		func() store.Query { return store.ConflictSpan(min(column, other), max(column, other), at, flag) },
		func() store.Query { return store.AnyNotify(column) },
		store.Pending,
		func() store.Query { return store.PendingUpTo(at+1, n) },
		func() store.Query { return store.WrittenSince(at) },
		func() store.Query { return store.Locks(bound) },
		store.AllLocks,
		store.Garbage,
		func() store.Query { return store.Exported(at+1, flag) },
		func() store.Query { return store.Weak(at + 1) },
		func() store.Query { return store.Records(column, at+1, n) },
		func() store.Query { return store.RecordsAndLocks(p.columns(), n) },
		func() store.Query { return store.Inspected(p.columns(), n, n) },
		store.Anything,
		store.History,
		func() store.Query { return store.RecordsFrom(at, at+2) },
		func() store.Query { return store.Changed(p.columns(), at, at+2) },
		func() store.Query { return store.ChangedRecords(p.columns(), at, at+2) },
		func() store.Query { return store.Cells(pick(p.rand, "", "hold:", "a"), p.rand.IntN(3)) },
		func() store.Query { return store.CellIs(column, layout.EncodeWrite(at, layout.KindPut)) },
		func() store.Query {
			return store.CellBegins(column, layout.EncodeWrite(at, layout.KindPut)[:p.rand.IntN(9)])
		},
		func() store.Query { return store.CellAtLeast(column, at) },
		func() store.Query { return store.CellExists(column) },
		func() store.Query { return store.EitherCell(column, "none") },
		store.JournalCells,
		func() store.Query { return store.SafepointRefused("safepoint", "hold:", at) },
		func() store.Query { return store.HoldRefused("safepoint", "hold:a", at) },
	}...)()
}
