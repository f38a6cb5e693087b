package simulated

import (
	"bytes"
	"context"
	"slices"

	"github.com/gopercolator/percolator/internal/engine/store"
)

// conditional is a mutation that depends on what the row has.
type conditional struct {
	row          string
	predicate    store.Query
	onMatch, not []store.Change
	matched      bool
}

// CheckAndMutate implements store.Backend. It is sent once.
func (c *Connection) CheckAndMutate(ctx context.Context, table, row string, predicate store.Query, onMatch, onMiss *store.Mutation) (matched bool, err error) {
	m := &conditional{row: row, predicate: predicate, onMatch: changesOf(onMatch), not: changesOf(onMiss)}
	r, err := c.send(ctx, opCheckAndMutate, table, row)
	if err != nil {
		return false, err
	}
	if err := checkConditional(m); err != nil {
		return false, err
	}
	leave, err := r.table.admit(max(len(m.onMatch), len(m.not)))
	if err != nil {
		return false, err
	}
	defer leave()
	r.sends(false, row, m.onMatch)
	r.sends(false, row, m.not)
	f := r.fate(true)
	r.fated(row, f)
	if err := r.carry(ctx, f, m); err != nil {
		return false, err
	}
	return m.matched, nil
}

func (m *conditional) land(r *request) (err error) {
	if err := r.table.reach(m.row); err != nil {
		return err
	}
	r.conn.cluster.landed.Add(1)
	m.matched, err = r.table.checkAndMutate(m.row, &m.predicate, m.onMatch, m.not)
	how, changes := "does not match:", m.not
	if m.matched {
		how, changes = "matches:", m.onMatch
	}
	r.landed(m.row, how, changes, err)
	return err
}

func (m *conditional) frozen() effect {
	out := *m
	out.onMatch, out.not = frozen(m.onMatch), frozen(m.not)
	q := &out.predicate
	q.Columns, q.Ranges, q.Versions, q.Value = slices.Clone(q.Columns), slices.Clone(q.Ranges), slices.Clone(q.Versions), bytes.Clone(q.Value)
	return &out
}

func changesOf(m *store.Mutation) []store.Change {
	if m == nil {
		return nil
	}
	return m.Changes()
}

// frozen is changes that the caller cannot change any more.
func frozen(changes []store.Change) []store.Change {
	out := slices.Clone(changes)
	for i := range out {
		out[i].Value = bytes.Clone(out[i].Value)
	}
	return out
}
