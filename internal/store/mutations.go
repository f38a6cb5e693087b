package store

import (
	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/tso"
)

// CommitCell adds the mutations that commit one cell: the record, the lock gone, and the notification in the same breath (I10).
func CommitCell(mut *bigtable.Mutation, column string, k layout.Kind, startTS, commitTS tso.Timestamp, observed bool) {
	mut.Set(layout.WriteFamily, column, layout.CellTime(commitTS), layout.EncodeWrite(startTS, k))
	EraseExactly(mut, layout.LockFamily, column, startTS)
	if observed {
		mut.Set(layout.NotifyFamily, column, layout.CellTime(commitTS), nil)
	}
}

// EraseExactly removes the version at ts. The range is half open.
func EraseExactly(m *bigtable.Mutation, family, column string, ts tso.Timestamp) {
	m.DeleteTimestampRange(family, column, layout.CellTime(ts), layout.CellTime(ts+1))
}

// EndAfter is the end, exclusive, of the notifications that a run which began at StartTS has settled: a change that came
// during the run has a later one (I13).
func EndAfter(startTS tso.Timestamp) bigtable.Timestamp {
	return layout.CellTime(startTS + 1)
}

func ErasureOf(s layout.ObserverState) *bigtable.Mutation {
	mut := bigtable.NewMutation()
	mut.DeleteTimestampRange(layout.NotifyFamily, s.Column(), 0, EndAfter(s.Through))
	return mut
}
