package store

import (
	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/tso"
)

// Mutation is a list of changes to one row, applied together.
type Mutation struct{ changes []change }

// change puts a value at from, or erases the versions of a column from from to to (exclusive).
type change struct {
	kind           changeKind
	family, column string
	from, to       tso.Timestamp // to = 0: no end
	value          []byte
}

type changeKind uint8

const (
	put changeKind = iota
	eraseVersions
	eraseRow
)

// NewMutation is a mutation with room for n changes.
func NewMutation(n int) *Mutation { return &Mutation{make([]change, 0, n)} }

// Empty reports whether the mutation changes nothing.
func (m *Mutation) Empty() bool { return len(m.changes) == 0 }

// Put writes a version.
func (m *Mutation) Put(family, column string, ts tso.Timestamp, value []byte) {
	m.changes = append(m.changes, change{put, family, column, ts, 0, value})
}

// Erase removes the version at ts, if there is one.
func (m *Mutation) Erase(family, column string, ts tso.Timestamp) {
	m.EraseBetween(family, column, ts, ts+1)
}

// EraseBetween removes the versions from ≤ ts < to; to = 0 is no end.
func (m *Mutation) EraseBetween(family, column string, from, to tso.Timestamp) {
	m.changes = append(m.changes, change{eraseVersions, family, column, from, to, nil})
}

// EraseColumn removes all versions of a column.
func (m *Mutation) EraseColumn(family, column string) { m.EraseBetween(family, column, 0, 0) }

// EraseRow removes the row.
func (m *Mutation) EraseRow() { m.changes = append(m.changes, change{kind: eraseRow}) }

// Commit commits one cell: its record appears, its lock goes, and the notification comes with them
// (I10).
func (m *Mutation) Commit(column string, k layout.Kind, startTS, commitTS tso.Timestamp, observed bool) {
	m.Put(layout.WriteFamily, column, commitTS, layout.EncodeWrite(startTS, k))
	m.Erase(layout.LockFamily, column, startTS)
	if observed {
		m.Put(layout.NotifyFamily, column, commitTS, nil)
	}
}

// RollBack erases what prewrite wrote to one cell.
func (m *Mutation) RollBack(column string, startTS tso.Timestamp) {
	m.Erase(layout.LockFamily, column, startTS)
	m.Erase(layout.DataFamily, column, startTS)
}

// ClearNotify erases the notifications of a column that a run at startTS has dealt with: a change
// that came during the run has a later timestamp, and its notification stays (I13).
func (m *Mutation) ClearNotify(column string, startTS tso.Timestamp) {
	m.EraseBetween(layout.NotifyFamily, column, 0, startTS+1)
}
