package store

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// google is Cloud Bigtable behind the interface Backend: the one place that knows Google's client.
// That client retries ReadRows and MutateRows; it never retries CheckAndMutateRow.
type google struct {
	*connection             // for all but background work
	background  *connection // the same one if that has no app profile of its own
}

// of is the connection for what is sent with ctx.
func (g *google) of(ctx context.Context) *connection {
	if g.background != g.connection && isBackground(ctx) {
		return g.background
	}
	return g.connection
}

func (g *google) ReadRow(ctx context.Context, table, row string, q Query) (layout.Row, error) {
	r, err := g.of(ctx).table(table).ReadRow(ctx, row, bigtable.RowFilter(q.filter()))
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
	// Google's client repeats a reverse read of keys without the keys.
	if rows.Reverse && rows.Keys == nil {
		opts = append(opts, bigtable.ReverseScan())
	}
	return g.of(ctx).table(table).ReadRows(ctx, rows.set(), func(r bigtable.Row) bool {
		stopped = !visit(rowOf(r))
		return !stopped
	}, opts...)
}

func (g *google) CheckAndMutate(ctx context.Context, table, row string, predicate Query, onMatch, onMiss *Mutation) (matched bool, err error) {
	err = g.of(ctx).table(table).Apply(ctx, row, bigtable.NewCondMutation(predicate.filter(), onMatch.google(), onMiss.google()),
		bigtable.GetCondMutationResult(&matched))
	return matched, err
}

func (g *google) MutateRows(ctx context.Context, table string, rows []string, muts []*Mutation) ([]error, error) {
	return g.of(ctx).table(table).ApplyBulk(ctx, rows, ordered.Map(muts, (*Mutation).google))
}

func (g *google) SampleKeys(ctx context.Context, table string) ([]string, error) {
	return g.of(ctx).table(table).SampleRowKeys(ctx)
}

func (g *google) Close() error {
	if g.background == g.connection {
		return g.connection.close()
	}
	return errors.Join(g.connection.close(), g.background.close())
}

// families are those that a row may have, in the order in which its items are listed.
var families = [...]string{layout.LockFamily, layout.WriteFamily, layout.DataFamily, layout.NotifyFamily, layout.MetaFamily, tso.BigtableFamily, layout.JournalFamily}

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
	case len(r.Ranges) == 0:
		return bigtable.InfiniteRange("")
	case len(r.Ranges) == 1:
		return rangeSet(r.Ranges[0])
	}
	return bigtable.RowRangeList(ordered.Map(r.Ranges, rangeSet))
}

func rangeSet(r model.Range) bigtable.RowRange {
	if r.End == "" {
		return bigtable.InfiniteRange(r.Start)
	}
	return bigtable.NewRange(r.Start, r.End)
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

// Background work passes over tables, and no transaction waits for it. It goes under the
// app profile for it, where there is one: Bigtable then serves the rest first. It is
//
//   - the workers' search for notifications and locks, WaitIdle, and lists of notifications, of
//     parked cells and of locks,
//   - collection, all of it,
//   - exports, and the rows that a restore writes,
//   - backfills and verifications of indexes, and walks for observers.
//
// Each of them calls InBackground where it begins. What they share with others goes as the others
// do: reads that are sent together, phase two and other bulk mutations, and the refresh of the meta
// row. Their conditional mutations go under the profile too, so it has to route to the cluster of
// the other one and to allow single-row transactions.
//
// Rejected: to tell background work by the query, since a walk over a table reads as a transaction
// does, and to give it a Backend of its own, which every layer in between would have to hand down.

type backgroundKey struct{}

// InBackground marks everything that is sent with ctx as background work.
func InBackground(ctx context.Context) context.Context {
	if ctx == nil || isBackground(ctx) { // nil is for others to refuse
		return ctx
	}
	return context.WithValue(ctx, backgroundKey{}, true)
}

func isBackground(ctx context.Context) bool { return ctx.Value(backgroundKey{}) != nil }

// Listen has the connections tell what they see: silence is counted and logged, and what Bigtable
// says of how long to wait holds for all requests to a table.
func (s *Store) Listen(logger *slog.Logger) {
	g, ok := s.backend.(*google)
	if !ok {
		return
	}
	tell := func(silent bool) {
		switch {
		case s.Background.Err() != nil: // the client is closed
		case silent:
			s.Count.SilentConnections.Add(1)
			logger.Warn("a connection to Bigtable does not answer; requests go to the others", "for", quietAfter+pingWithin)
		default:
			s.Count.SilentConnections.Add(-1)
			logger.Info("a connection to Bigtable that did not answer is back, or replaced")
		}
	}
	s.Pressure.divided = g.background != g.connection
	for _, c := range []*connection{g.connection, g.background} {
		asked := func(table string, sent time.Time, err error) {
			s.Pressure.told(pressed{table, c != g.connection}, sent, err)
		}
		c.conns.tell.Store(&tell)
		c.conns.asked.Store(&asked)
	}
}
