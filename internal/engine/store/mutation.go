package store

import (
	"iter"
	"slices"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/tso"
)

// Mutation is a list of changes to one row, applied together. That of one cell is one allocation.
type Mutation struct {
	changes []Change
	room    [3]Change

	// record is that of the last Commit: the cells of a row mostly share it.
	record     *[layout.WriteBytes]byte
	recordRoom [layout.WriteBytes]byte
}

// Change is one change of a Mutation: a value that is put at From, or versions of a column that are
// erased, from From to To (exclusive).
type Change struct {
	Kind           ChangeKind
	Family, Column string
	From, To       tso.Timestamp // To = 0: no end
	Value          []byte
}

// ChangeKind is what a Change does.
type ChangeKind uint8

const (
	PutVersion ChangeKind = iota
	EraseVersions
	EraseWholeRow
)

// NewMutation is a mutation with room for n changes.
func NewMutation(n int) *Mutation {
	m := new(Mutation)
	if m.changes = m.room[:0]; n > len(m.room) {
		m.changes = make([]Change, 0, n)
	}
	return m
}

// Changes is what the mutation does, in order; for those who implement Backend.
func (m *Mutation) Changes() []Change { return m.changes }

// Parts are mutations of at most n changes each, for changes that may become visible one by one.
func (m *Mutation) Parts(n int) iter.Seq[*Mutation] {
	return func(yield func(*Mutation) bool) {
		for part := range slices.Chunk(m.changes, n) {
			if !yield(&Mutation{changes: part}) {
				return
			}
		}
	}
}

// Empty reports whether the mutation changes nothing.
func (m *Mutation) Empty() bool { return len(m.changes) == 0 }

// len is how many changes Bigtable counts; nil has none.
func (m *Mutation) len() int {
	if m == nil {
		return 0
	}
	return len(m.changes)
}

// load is what the mutation adds to a request.
func (m *Mutation) load(row string) Load {
	const overhead = 64 // more than Protocol Buffers add to a change or to a row
	l := Load{Rows: 1, Bytes: len(row) + overhead, Mutations: len(m.changes)}
	for _, c := range m.changes {
		l.Bytes += len(c.Family) + len(c.Column) + len(c.Value) + overhead
	}
	return l
}

// Put writes a version.
func (m *Mutation) Put(family, column string, ts tso.Timestamp, value []byte) {
	m.changes = append(m.changes, Change{PutVersion, family, column, ts, 0, value})
}

// Erase removes the version at ts, if there is one.
func (m *Mutation) Erase(family, column string, ts tso.Timestamp) {
	m.EraseBetween(family, column, ts, ts+1)
}

// EraseBetween removes the versions from ≤ ts < to; to = 0 is no end.
func (m *Mutation) EraseBetween(family, column string, from, to tso.Timestamp) {
	m.changes = append(m.changes, Change{EraseVersions, family, column, from, to, nil})
}

// EraseColumn removes all versions of a column.
func (m *Mutation) EraseColumn(family, column string) { m.EraseBetween(family, column, 0, 0) }

// EraseRow removes the row.
func (m *Mutation) EraseRow() { m.changes = append(m.changes, Change{Kind: EraseWholeRow}) }

// Commit commits one cell: its record appears, its lock goes, and the notification comes with them
// (I10). A put expires as life says (I27).
func (m *Mutation) Commit(column string, k layout.Kind, startTS, commitTS tso.Timestamp, observed bool, life layout.Lifetime) {
	if expires := life.ExpiresAt(commitTS); expires != 0 && k == layout.KindPut {
		m.Put(layout.WriteFamily, column, commitTS, layout.EncodePut(startTS, expires))
	} else {
		m.Put(layout.WriteFamily, column, commitTS, m.encoded(startTS, k))
	}
	m.Erase(layout.LockFamily, column, startTS)
	if observed {
		m.Put(layout.NotifyFamily, column, commitTS, nil)
	}
}

// encoded is layout.EncodeWrite that shares the bytes of equal records.
func (m *Mutation) encoded(startTS tso.Timestamp, k layout.Kind) []byte {
	record := layout.RecordBytes(startTS, k)
	switch {
	case m.record == nil:
		m.record = &m.recordRoom
	case *m.record != record:
		m.record = new([layout.WriteBytes]byte)
	}
	*m.record = record
	return m.record[:]
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
