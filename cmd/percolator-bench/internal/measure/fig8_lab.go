package measure

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/percolator"
)

// The tables of the benchmark: one that transactions use, one with a single family for the raw client, and one with the protocol's
// families for the two requests that a single-cell commit cannot do without.
const (
	fig8Ours   = "ours"
	fig8Plain  = "raw1"
	fig8Limit  = "two2"
	fig8Column = "c"
	fig8Family = "f" // of the plain table
)

// fig8Lab is the clients and tables that all comparisons share.
type fig8Lab struct {
	*environment
	client, unbatched *percolator.Client // each with connections of its own, as many as the raw client has
	ours              *fig8Rows
	plain, limit      *fig8Rows
	last              atomic.Int64 // timestamp of the limit
}

// startFig8 connects and loads. Tests give further options, for all clients.
func startFig8(ctx context.Context, b *fig8Benchmark, emulator string, opts ...option.ClientOption) (l *fig8Lab, err error) {
	l = &fig8Lab{ours: newFig8Rows(b.rows, b.value), plain: newFig8Rows(b.rows, b.value), limit: newFig8Rows(b.rows, b.value)}
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	schema := &percolator.Schema{Tables: []percolator.Table{{Name: fig8Ours}, {Name: fig8Limit}}}
	if l.environment, err = startEnvironment(ctx, emulator, schema); err != nil {
		return nil, err
	}
	if err = errors.Join(l.createRaw(ctx, fig8Plain, fig8Family, bigtable.NoGcPolicy()), l.connect(ctx, opts)); err == nil {
		err = errors.Join(l.ours.load(ctx), l.plain.load(ctx), l.limit.load(ctx), l.client.Flush(ctx))
	}
	_, err = l.orClose(err)
	return l, err
}

func (l *fig8Lab) connect(ctx context.Context, opts []option.ClientOption) (err error) {
	if l.client, err = l.environment.client(ctx, percolator.Config{}, opts...); err != nil {
		return err
	}
	if l.unbatched, err = l.environment.client(ctx, percolator.Config{DisableBatching: true}, opts...); err != nil {
		return err
	}
	raw, err := l.raw(ctx, opts...)
	if err != nil {
		return err
	}
	ts, err := l.oracle.Next(ctx)
	l.last.Store(int64(ts)) // as large as those of the protocol: they are sent as varints
	l.ours.table, l.ours.versions, l.ours.read, l.ours.write = raw.Open(fig8Ours), true, l.readOurs, l.loadOurs
	l.limit.table, l.limit.versions, l.limit.read, l.limit.write = raw.Open(fig8Limit), true, l.readLimit, l.loadLimit
	l.plain.table, l.plain.read, l.plain.write = raw.Open(fig8Plain), l.readPlain, l.loadPlain
	return err
}

func fig8Cell(row string) percolator.Cell {
	return percolator.Cell{Table: fig8Ours, Row: row, Column: fig8Column}
}

func (l *fig8Lab) readOurs(ctx context.Context, keys []string) ([][]byte, error) {
	s, err := l.client.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	var cells []percolator.Cell
	for _, key := range keys {
		cells = append(cells, fig8Cell(key))
	}
	return s.GetMulti(ctx, cells...)
}

func (l *fig8Lab) loadOurs(ctx context.Context, keys []string, values [][]byte) error {
	_, err := l.client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		for i, key := range keys {
			if err := tx.Set(fig8Cell(key), values[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

func (l *fig8Lab) readPlain(ctx context.Context, keys []string) ([][]byte, error) {
	return l.plain.readRaw(ctx, fig8Family, keys)
}

func (l *fig8Lab) readLimit(ctx context.Context, keys []string) ([][]byte, error) {
	return l.limit.readRaw(ctx, "data", keys)
}

func (l *fig8Lab) loadPlain(ctx context.Context, keys []string, values [][]byte) error {
	return loadRaw(ctx, l.plain.table, keys, func(i int, mut *bigtable.Mutation) {
		mut.Set(fig8Family, fig8Column, fig8Timestamp, values[i])
	})
}

func (l *fig8Lab) loadLimit(ctx context.Context, keys []string, values [][]byte) error {
	start, commit := l.tick(), l.tick()
	return loadRaw(ctx, l.limit.table, keys, func(i int, mut *bigtable.Mutation) {
		mut.Set("data", fig8Column, start, values[i])
		mut.Set("write", fig8Column, commit, fig8Record)
	})
}

func loadRaw(ctx context.Context, table *bigtable.Table, keys []string, set func(i int, mut *bigtable.Mutation)) error {
	muts := make([]*bigtable.Mutation, len(keys))
	for i := range muts {
		muts[i] = bigtable.NewMutation()
		set(i, muts[i])
	}
	errs, err := table.ApplyBulk(ctx, keys, muts)
	return errors.Join(append(slices.Clip(errs), err)...)
}
