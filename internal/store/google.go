package store

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/tso"
)

// google is Cloud Bigtable behind the interface Backend: the one place that knows Google's client.
// That client retries ReadRows and MutateRows; it never retries CheckAndMutateRow.
type google struct {
	client *bigtable.Client
	tables sync.Map // name → *bigtable.Table
}

// Connect opens the data client with the settings that transactions need: no direct access and no
// sessions unless measured, and no metrics exported behind the user's back.
func Connect(ctx context.Context, project, instance, appProfile string, opts []option.ClientOption) (Backend, error) {
	client, err := bigtable.NewClientWithConfig(ctx, project, instance, bigtable.ClientConfig{
		AppProfile:          appProfile,
		MetricsProvider:     bigtable.NoopMetricsProvider{},
		DisableDirectAccess: true,
		DisableSession:      true,
	}, opts...)
	if err != nil {
		return nil, fmt.Errorf("percolator: bigtable client of %s/%s: %w", project, instance, model.WithContext(ctx, err))
	}
	return &google{client: client}, nil
}

func (g *google) table(name string) *bigtable.Table {
	if t, ok := g.tables.Load(name); ok {
		return t.(*bigtable.Table)
	}
	t, _ := g.tables.LoadOrStore(name, g.client.Open(name))
	return t.(*bigtable.Table)
}

func (g *google) ReadRow(ctx context.Context, table, row string, q Query) (layout.Row, error) {
	r, err := g.table(table).ReadRow(ctx, row, bigtable.RowFilter(q.filter()))
	return rowOf(r), err
}

func (g *google) ReadRows(ctx context.Context, table string, rows Rows, q Query, limit int, passed func(key string), visit func(layout.Row) bool) error {
	stopped := false // Google's client reads on, and visits nothing
	if passed != nil {
		ctx = (&Attempts{passed: func(key string) {
			if !stopped {
				passed(key)
			}
		}}).Watch(ctx)
	}
	opts := []bigtable.ReadOption{bigtable.RowFilter(q.filter())}
	if limit > 0 {
		opts = append(opts, bigtable.LimitRows(int64(limit)))
	}
	return g.table(table).ReadRows(ctx, rows.set(), func(r bigtable.Row) bool {
		stopped = !visit(rowOf(r))
		return !stopped
	}, opts...)
}

func (g *google) CheckAndMutate(ctx context.Context, table, row string, predicate Query, onMatch, onMiss *Mutation) (matched bool, err error) {
	err = g.table(table).Apply(ctx, row, bigtable.NewCondMutation(predicate.filter(), onMatch.google(), onMiss.google()),
		bigtable.GetCondMutationResult(&matched))
	return matched, err
}

func (g *google) MutateRows(ctx context.Context, table string, rows []string, muts []*Mutation) ([]error, error) {
	list := make([]*bigtable.Mutation, len(muts))
	for i, m := range muts {
		list[i] = m.google()
	}
	return g.table(table).ApplyBulk(ctx, rows, list)
}

func (g *google) SampleKeys(ctx context.Context, table string) ([]string, error) {
	return g.table(table).SampleRowKeys(ctx)
}

func (g *google) Close() error {
	err := g.client.Close()
	if err != nil && strings.Contains(err.Error(), "closing") { // closed before
		return nil
	}
	return err
}

// families are those that a row may have, in the order in which its items are listed.
var families = [...]string{layout.LockFamily, layout.WriteFamily, layout.DataFamily, layout.NotifyFamily, layout.MetaFamily, tso.BigtableFamily}

// rowOf is a row of Google's client, nil if it is missing.
func rowOf(r bigtable.Row) layout.Row {
	n := 0
	for _, items := range r {
		n += len(items)
	}
	if n == 0 {
		return layout.Row{}
	}
	out := layout.Row{Key: r.Key(), Items: make([]layout.Item, 0, n)}
	for _, family := range families {
		for _, it := range r[family] {
			value := it.Value
			if value == nil { // an empty value is not absence
				value = []byte{}
			}
			out.Items = append(out.Items, layout.Item{Family: family, Column: it.Column[len(family)+1:], Timestamp: int64(it.Timestamp), Value: value})
		}
	}
	return out
}

func (r Rows) set() bigtable.RowSet {
	switch {
	case r.Keys != nil:
		return bigtable.RowList(r.Keys)
	case r.Range.End == "":
		return bigtable.InfiniteRange(r.Range.Start)
	}
	return bigtable.NewRange(r.Range.Start, r.Range.End)
}

// google is the mutation as Google's client takes it; nil stays nil.
func (m *Mutation) google() *bigtable.Mutation {
	if m == nil {
		return nil
	}
	out := bigtable.NewMutation()
	for _, c := range m.Changes() {
		switch {
		case c.Kind == PutVersion:
			out.Set(c.Family, c.Column, cellTime(c.From), c.Value)
		case c.Kind == EraseWholeRow:
			out.DeleteRow()
		case c.From == 0 && c.To == 0:
			out.DeleteCellsInColumn(c.Family, c.Column)
		default:
			out.DeleteTimestampRange(c.Family, c.Column, cellTime(c.From), cellTime(c.To))
		}
	}
	return out
}
