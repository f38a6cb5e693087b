package repair

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/internal/engine/store"
)

// Bounds of one mutation: Bigtable applies at most 100,000 changes to a row at once.
const (
	maxChanges = 20_000
	maxRows    = 4 * store.RequestRows // of a batch
)

// batch gathers mutations of one table.
type batch struct {
	r     *run
	table string
	rows  []string
	muts  [][]*store.Mutation // of each row, to be applied one after the other
	at    map[string]int
}

// of returns the mutation of a row to which the caller adds its next changes.
func (b *batch) of(row string) *store.Mutation {
	i, ok := b.at[row]
	if !ok {
		if b.at == nil {
			b.at = map[string]int{}
		}
		i = len(b.rows)
		b.at[row], b.rows, b.muts = i, append(b.rows, row), append(b.muts, []*store.Mutation{store.NewMutation(3)})
	}
	last := b.muts[i][len(b.muts[i])-1]
	if len(last.Changes()) >= maxChanges {
		last = store.NewMutation(3)
		b.muts[i] = append(b.muts[i], last)
	}
	return last
}

// full sends the batch if it is large.
func (b *batch) full(ctx context.Context) error {
	if len(b.rows) < maxRows {
		return nil
	}
	return b.send(ctx)
}

// send applies what was gathered, and begins anew.
func (b *batch) send(ctx context.Context) error {
	for nth := 0; ; nth++ {
		var list []store.RowMutation
		deadline := time.Now().Add(b.r.e.Store.Timing.RequestLifetime)
		for i, row := range b.rows {
			if nth < len(b.muts[i]) && !b.muts[i][nth].Empty() {
				list = append(list, store.RowMutation{Table: b.table, Row: row, Mut: b.muts[i][nth], Deadline: deadline})
			}
		}
		if len(list) == 0 {
			b.rows, b.muts, b.at = nil, nil, nil
			return nil
		}
		if err := b.r.inForce(ctx); err != nil {
			return err
		}
		if err := b.r.e.Sweeping.Do(ctx, list); err != nil {
			return b.r.e.Store.Err(ctx, b.table, err)
		}
	}
}
