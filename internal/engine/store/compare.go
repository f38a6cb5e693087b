package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/google/uuid"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
)

// A cell of the instance's own table is replaced on the condition of its former value (J10). A
// filter names that value twice, as the bounds of a range, and Bigtable takes no filter above
// 20 KiB. So a value that is too long to be named begins with a nonce, and the condition compares
// the nonce alone:
//
//	{"Nonce":"6ba7b810-9dad-41d1-80b4-00c04fd430c8","Phase":"erase",...
//
// The nonce is a part of the value and not a cell beside it: a client of an earlier version drops
// it from what it writes, so what it has written matches no condition on the former value.

// MaxCompared is how many bytes of a value a condition compares whole. The filter has room for
// slightly more.
const MaxCompared = 8 << 10

const (
	nonceBegin = `{"Nonce":"`
	nonceEnd   = `"`
	nonceBytes = len(nonceBegin) + 36 + len(nonceEnd)
)

func beginWith(nonce uuid.UUID) []byte { return []byte(nonceBegin + nonce.String() + nonceEnd) }

// Comparable is a JSON object as a later condition can compare it: a long one gets a nonce, which
// no other write has. Who decodes the object passes over the nonce.
func Comparable(object []byte) []byte {
	if len(object) <= MaxCompared {
		return object
	}
	return append(append(beginWith(uuid.New()), ','), object[1:]...)
}

// ComparableBytes is Comparable for a value that may be any bytes, and that no one stores twice.
// The nonce is a hash of it, so who knows the value knows what is stored.
func ComparableBytes(value []byte) []byte {
	if len(value) <= MaxCompared {
		return value
	}
	return append(beginWith(hashOf(value)), value...)
}

func hashOf(value []byte) uuid.UUID {
	sum := sha256.Sum256(value)
	return uuid.UUID(sum[:16])
}

// ComparedBytes is the inverse of ComparableBytes. What was stored by an earlier version is
// returned as it is.
func ComparedBytes(stored []byte) []byte {
	if value := stored[min(len(stored), nonceBytes):]; len(value) > MaxCompared && bytes.HasPrefix(stored, beginWith(hashOf(value))) {
		return value
	}
	return stored
}

func hasNonce(value []byte) bool {
	if len(value) < nonceBytes || !bytes.HasPrefix(value, []byte(nonceBegin)) || value[nonceBytes-1] != nonceEnd[0] {
		return false
	}
	return uuid.Validate(string(value[len(nonceBegin):nonceBytes-len(nonceEnd)])) == nil
}

// stillHolds is the condition that a column of the meta family holds value; exact: no other value
// that may be there meets it.
func stillHolds(column string, value []byte) (q Query, exact bool) {
	if len(value) > MaxCompared && hasNonce(value) {
		return CellBegins(column, value[:nonceBytes]), true
	}
	if q = CellIs(column, value); q.FilterBytes() <= FilterBytes {
		return q, true
	}
	return CellBegins(column, value[:MaxCompared]), false
}

// CompareAndSet replaces a cell of the instance's own table, in the meta family: next takes the
// place of old. A nil old is a cell that does not exist, a nil next one that is to go. It makes one
// attempt; a caller that repeats it after an ambiguous error (Retry) may find its own next in the
// place of old. ErrTooLarge: no condition could compare next (Comparable).
func (s *Store) CompareAndSet(ctx context.Context, row, column string, old, next []byte) (swapped bool, err error) {
	m := NewMutation(1)
	if next == nil {
		m.EraseColumn(layout.MetaFamily, column)
	} else {
		m.Put(layout.MetaFamily, column, MetaTimestamp, next)
	}
	return s.CompareAndMutate(ctx, row, column, old, m)
}

// CompareAndMutate is CompareAndSet with a mutation of the row in place of one new value.
func (s *Store) CompareAndMutate(ctx context.Context, row, column string, old []byte, m *Mutation) (applied bool, err error) {
	for _, c := range m.Changes() {
		if c.Kind == PutVersion && c.Column == column && len(c.Value) > MaxCompared && !hasNonce(c.Value) {
			return false, fmt.Errorf("percolator: table %q: %w: the new value of column %q in row %q has %d bytes, more than %d, and could not be replaced",
				model.MetaTable, model.ErrTooLarge, column, row, len(c.Value), MaxCompared)
		}
	}
	if old == nil {
		there, err := s.CheckAndMutate(ctx, model.MetaTable, row, CellExists(column), nil, m)
		return err == nil && !there, err
	}
	holds, exact := stillHolds(column, old)
	if !exact { // an earlier version has stored old, and cannot replace it: only this one can
		r, err := s.ReadRow(ctx, model.MetaTable, row, holds)
		if err != nil || r.Missing() || !bytes.Equal(r.Items[0].Value, old) {
			return false, err
		}
	}
	return s.CheckAndMutate(ctx, model.MetaTable, row, holds, m, nil)
}

// MetaCell is a cell of the instance's own table, in the meta family.
type MetaCell struct {
	Store       *Store
	Row, Column string
}

// Read returns what it holds; nil: nothing.
func (c MetaCell) Read(ctx context.Context) ([]byte, error) {
	row, err := c.Store.ReadRow(ctx, model.MetaTable, c.Row, Cells(c.Column, 0))
	if cells := row.Of(layout.MetaFamily); err == nil && len(cells) > 0 {
		return cells[0].Value, nil
	}
	return nil, err
}

// Replace is CompareAndSet.
func (c MetaCell) Replace(ctx context.Context, former, next []byte) (bool, error) {
	return c.Store.CompareAndSet(ctx, c.Row, c.Column, former, next)
}
