package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cloud.google.com/go/bigtable"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/percolator/model"
)

// size is a documented limit (Google's page "Quotas and limits"). send sends something of n units.
// Where Google counts what its library encodes, or means 1,000 or 1,024 by K, accepted is less than
// the limit, and still more than a client ever sends.
type size struct {
	what              string
	accepted, refused int
	bytes             int // of a unit
	send              func(ctx context.Context, t *bigtable.Table, n int) error
}

func sizesOf(c *Config) []size {
	const row = "sizes"
	set := func(row, column string, value []byte) func(context.Context, *bigtable.Table) error {
		return func(ctx context.Context, t *bigtable.Table) error {
			m := bigtable.NewMutation()
			m.Set(layout.MetaFamily, column, 1000, value)
			return t.Apply(ctx, row, m)
		}
	}
	read := func(ctx context.Context, t *bigtable.Table, rows bigtable.RowSet, opts ...bigtable.ReadOption) error {
		return t.ReadRows(ctx, rows, func(bigtable.Row) bool { return true }, opts...)
	}
	all := []size{
		{"bytes of a row key", model.MaxRowKeyBytes, 4<<10 + 1, 1, func(ctx context.Context, t *bigtable.Table, n int) error {
			return set(strings.Repeat("k", n), "c", nil)(ctx, t)
		}},
		{"bytes of a qualifier", 16_000, 16<<10 + 1, 1, func(ctx context.Context, t *bigtable.Table, n int) error {
			return set(row, strings.Repeat("q", n), nil)(ctx, t)
		}},
		{"bytes of a filter", 20_000, 20<<10 + 1, 1, func(ctx context.Context, t *bigtable.Table, n int) error {
			const frame = 8 // around the value, in Protocol Buffers
			return read(ctx, t, bigtable.RowList{row}, bigtable.RowFilter(bigtable.ValueRangeFilter(bytes.Repeat([]byte("v"), n-frame), nil)))
		}},
		{"bytes of a read's row keys", 500_000, 512<<10 + 1, 1, func(ctx context.Context, t *bigtable.Table, n int) error {
			const key = 4000
			var rows bigtable.RowList
			for i := range n / key {
				rows = append(rows, fmt.Sprintf("%0*d", key, i))
			}
			return read(ctx, t, append(rows, strings.Repeat("k", n%key+1)))
		}},
		{"mutations of a row", 100_000, 100_001, 20, func(ctx context.Context, t *bigtable.Table, n int) error {
			m := bigtable.NewMutation()
			for range n {
				m.DeleteCellsInColumn(layout.MetaFamily, "none")
			}
			return t.Apply(ctx, row, m)
		}},
	}
	if c.LargeValues {
		all = append(all, size{"bytes of a value", model.MaxValueBytes, 100<<20 + 1, 1, func(ctx context.Context, t *bigtable.Table, n int) error {
			return set(row, "c", make([]byte, n))(ctx, t)
		}})
	}
	return all[:min(len(all), c.effort.sizes)]
}

func sizesCost(c *Config) (cost Cost) {
	for _, s := range sizesOf(c) {
		cost = cost.plus(Cost{Requests: 4, Bytes: int64(2*s.refused*s.bytes + 8<<10)})
	}
	return cost
}

// refusals are the codes of a request that is refused for what it is.
var refusals = []codes.Code{codes.InvalidArgument, codes.FailedPrecondition, codes.ResourceExhausted}

func (p *probe) sizes(ctx context.Context) (out []health.Finding) {
	t := p.data.Open(p.table)
	var seen []string
	for _, s := range sizesOf(&p.Config) {
		err := s.send(ctx, t, s.accepted)
		if slices.Contains(refusals, status.Code(err)) {
			out = append(out, failed("", "%d %s were refused: %v", s.accepted, s.what, err))
		} else if err != nil {
			return append(out, stopped(fmt.Errorf("%d %s: %w", s.accepted, s.what, err))...)
		}
		err = s.send(ctx, t, s.refused)
		switch code := status.Code(err); {
		case err == nil:
			out = append(out, failed("", "%d %s were accepted", s.refused, s.what))
		case !slices.Contains(refusals, code):
			out = append(out, unable(fmt.Errorf("%d %s: %w", s.refused, s.what, err))...)
		default:
			seen = append(seen, fmt.Sprintf("%d %s (%d: %v)", s.accepted, s.what, s.refused, code))
		}
	}
	if !p.LargeValues {
		seen = append(seen, "values not tried (--large-values)")
	}
	return health.ElseFine(out, "accepted, and refused just beyond: %s", strings.Join(seen, ", "))
}

// missingFamily sends mutations of which one names a family that the table lacks, by each kind.
func (p *probe) missingFamily(ctx context.Context) (out []health.Finding) {
	const row = "missing-family"
	m := putting(layout.MetaFamily, "c", "v")
	m.Put("none", "c", 1, []byte("v"))
	var seen []string
	for _, send := range []func() error{
		func() error { return p.store.Mutate(ctx, p.table, row, m) },
		func() error {
			_, err := p.store.CheckAndMutate(ctx, p.table, row, store.CellExists("c"), m, m)
			return err
		},
	} {
		err := send()
		if outOfReach(err) {
			return append(out, stopped(err)...)
		}
		if !errors.Is(err, model.ErrSchemaMismatch) || !strings.Contains(err.Error(), "lacks a column family") {
			out = append(out, failed("", "a mutation of a family that does not exist: %v", err))
		}
		seen = append(seen, status.Code(err).String())
	}
	got, err := p.values(ctx, row)
	if err != nil {
		return append(out, stopped(err)...)
	}
	if len(got) > 0 {
		out = append(out, failed("", "a mutation of a family that does not exist was applied in part: %v", got))
	}
	return health.ElseFine(out, "a mutation and a conditional one were refused (%s), and nothing of them was applied", strings.Join(seen, ", "))
}
