package simulated

import (
	"context"

	"github.com/gopercolator/percolator/internal/store"
)

// entry is a mutation of one row.
type entry struct {
	row     string
	changes []store.Change
	index   int
	err     error
}

func changesOf(m *store.Mutation) []store.Change {
	if m == nil {
		return nil
	}
	return m.Changes()
}

// CheckAndMutate implements store.Backend. It is sent once.
func (c *Connection) CheckAndMutate(ctx context.Context, table, row string, predicate store.Query, onMatch, onMiss *store.Mutation) (matched bool, err error) {
	req, err := c.send(ctx, opCheckAndMutate, table, row)
	if err != nil {
		return false, err
	}
	hit, miss := changesOf(onMatch), changesOf(onMiss)
	if err := checkConditional(row, &predicate, hit, miss); err != nil {
		return false, err
	}
	out, back := c.cluster.latency(req.hash)
	if err := wait(ctx, out); err != nil {
		return false, err
	}
	c.cluster.landed.Add(1)
	matched, err = req.table.checkAndMutate(row, &predicate, hit, miss)
	if late := wait(ctx, back); late != nil {
		return false, late
	}
	if c.awake(ctx) == killed {
		return false, contextStatus(ctx.Err())
	}
	return matched, err
}

// MutateRows implements store.Backend.
func (c *Connection) MutateRows(ctx context.Context, table string, rows []string, muts []*store.Mutation) ([]error, error) {
	if len(rows) != len(muts) {
		return nil, refused("mismatched rowKeys and mutation array lengths: %d, %d", len(rows), len(muts))
	}
	if len(rows) == 0 {
		return nil, nil
	}
	entries := make([]entry, len(rows))
	for i := range rows {
		entries[i] = entry{row: rows[i], changes: changesOf(muts[i]), index: i}
	}
	attempts := store.AttemptsOf(ctx)
	left := entries
	err := c.repeat(ctx, attempts, func() (hash, error) {
		req, err := c.send(ctx, opMutateRows, table, left[0].row)
		if err != nil {
			return req.hash, err
		}
		return req.hash, c.mutateRows(ctx, req, left, attempts)
	})
	if err != nil {
		return nil, err
	}
	var errs []error
	for i := range entries {
		if entries[i].err != nil {
			if errs == nil {
				errs = make([]error, len(entries))
			}
			errs[i] = entries[i].err
		}
	}
	return errs, nil
}

func (c *Connection) mutateRows(ctx context.Context, req request, entries []entry, attempts *store.Attempts) error {
	if err := checkEntries(entries); err != nil {
		return err
	}
	out, back := c.cluster.latency(req.hash)
	if err := wait(ctx, out); err != nil {
		return err
	}
	c.cluster.landed.Add(1)
	for i := range entries {
		entries[i].err = req.table.mutate(entries[i].row, entries[i].changes)
	}
	if err := wait(ctx, back); err != nil {
		return err
	}
	if c.awake(ctx) == killed {
		return contextStatus(ctx.Err())
	}
	for i := range entries {
		if entries[i].err == nil {
			attempts.Applied(entries[i].row)
		}
	}
	return nil
}

// SampleKeys implements store.Backend.
func (c *Connection) SampleKeys(ctx context.Context, table string) (keys []string, err error) {
	err = c.repeat(ctx, store.AttemptsOf(ctx), func() (hash, error) {
		req, err := c.send(ctx, opSampleKeys, table, "")
		if err != nil {
			return req.hash, err
		}
		out, back := c.cluster.latency(req.hash)
		if err := wait(ctx, out+back); err != nil {
			return req.hash, err
		}
		if c.awake(ctx) == killed {
			return req.hash, contextStatus(ctx.Err())
		}
		return req.hash, nil
	})
	return keys, err
}
