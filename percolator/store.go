package percolator

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// store is the four operations of Bigtable on which everything rests. It adds deadlines, counts, and nothing else:
// ReadRows and MutateRows are retried by Google's client, CheckAndMutateRow never is.
type store struct {
	bt      *bigtable.Client
	timing  Timing // with defaults; every request is bounded by its lifetime (I14)
	count   *counters
	metrics *instruments // nil: none
	tables  sync.Map     // name → *bigtable.Table
	// closing ends when the client is closed: requests that it cut off are not sent again.
	closing context.Context
}

func newStore(closing context.Context, bt *bigtable.Client, count *counters) *store {
	return &store{closing: closing, bt: bt, count: count, timing: defaultTiming}
}

// newBigtable opens the data client with the settings that transactions need: no direct access and no sessions unless
// measured, and no metrics exported behind the user's back.
func newBigtable(ctx context.Context, project, instance, appProfile string, opts []option.ClientOption) (*bigtable.Client, error) {
	bt, err := bigtable.NewClientWithConfig(ctx, project, instance, bigtable.ClientConfig{
		AppProfile:          appProfile,
		MetricsProvider:     bigtable.NoopMetricsProvider{},
		DisableDirectAccess: true,
		DisableSession:      true,
	}, opts...)
	if err != nil {
		return nil, fmt.Errorf("percolator: bigtable client of %s/%s: %w", project, instance, withContext(ctx, err))
	}
	return bt, nil
}

func (s *store) table(name string) *bigtable.Table {
	if t, ok := s.tables.Load(name); ok {
		return t.(*bigtable.Table)
	}
	t, _ := s.tables.LoadOrStore(name, s.bt.Open(name))
	return t.(*bigtable.Table)
}

// bounded gives a request its lifetime (I14). A context that ends earlier is left as it is: a timer and a context more for each request
// would be a noticeable part of its cost.
func (s *store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if at, ok := ctx.Deadline(); ok && time.Until(at) <= s.timing.RequestLifetime {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.timing.RequestLifetime)
}

// readRow reads one row atomically; a missing row is nil.
func (s *store) readRow(ctx context.Context, table, row string, f bigtable.Filter) (bigtable.Row, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	s.count.readRows.Add(1)
	begun := time.Now()
	r, err := s.table(table).ReadRow(ctx, row, bigtable.RowFilter(f))
	s.took(ctx, opReadRows, table, begun, err)
	if r != nil {
		s.count.rowsRead.Add(1)
	}
	return r, s.err(ctx, table, err)
}

// readRows streams rows in key order (each atomic by itself) until f returns false.
func (s *store) readRows(ctx context.Context, table string, set bigtable.RowSet, f func(bigtable.Row) bool, opts ...bigtable.ReadOption) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	s.count.readRows.Add(1)
	begun := time.Now()
	err := s.table(table).ReadRows(ctx, set, func(r bigtable.Row) bool {
		s.count.rowsRead.Add(1)
		return f(r)
	}, opts...)
	s.took(ctx, opReadRows, table, begun, err)
	return s.err(ctx, table, err)
}

// checkAndMutate applies onMatch if the predicate lets a cell of the row through, onMiss otherwise, and says which it
// was. Either may be nil. An error for which maybeApplied holds leaves open whether it was applied.
func (s *store) checkAndMutate(ctx context.Context, table, row string, predicate bigtable.Filter, onMatch, onMiss *bigtable.Mutation) (matched bool, err error) {
	if err := checkContext(ctx); err != nil {
		return false, err
	}
	if s.closing.Err() != nil {
		return false, fmt.Errorf("percolator: %w", ErrClosed)
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	s.count.checkAndMutate.Add(1)
	s.count.rowsMutated.Add(1)
	begun := time.Now()
	err = s.table(table).Apply(ctx, row, bigtable.NewCondMutation(predicate, onMatch, onMiss), bigtable.GetCondMutationResult(&matched))
	s.took(ctx, opCheckAndMutate, table, begun, err)
	return matched, s.err(ctx, table, err)
}

// mutateRows applies unconditional mutations, each atomic on its row; errs is nil or has an entry for each row.
func (s *store) mutateRows(ctx context.Context, table string, rows []string, muts []*bigtable.Mutation) (errs []error, err error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	s.count.mutateRows.Add(1)
	s.count.rowsMutated.Add(int64(len(rows)))
	begun := time.Now()
	errs, err = s.table(table).ApplyBulk(ctx, rows, muts)
	s.took(ctx, opMutateRows, table, begun, err)
	for i, rowErr := range errs {
		errs[i] = s.err(ctx, table, rowErr)
	}
	return errs, s.err(ctx, table, err)
}

// took measures a request. What the caller of readRows does with a row is part of it.
func (s *store) took(ctx context.Context, op operation, table string, begun time.Time, err error) {
	d := time.Since(begun)
	s.count.latency[op].add(d)
	s.metrics.request(ctx, op, table, d, err)
}

// err names the table, and the remedy where the table or a family does not exist.
func (s *store) err(ctx context.Context, table string, err error) error {
	if err == nil {
		return nil
	}
	if s.closing.Err() != nil {
		return fmt.Errorf("percolator: table %q: %w: %w", table, ErrClosed, err)
	}
	switch {
	case missingFamily(err):
		return fmt.Errorf("percolator: table %q: %w: it lacks a column family; CreateSchema adds it: %w", table, ErrSchemaMismatch, err)
	case status.Code(err) == codes.NotFound:
		return fmt.Errorf("percolator: table %q: %w: it does not exist in the instance; CreateSchema creates it: %w", table, ErrSchemaMismatch, err)
	}
	return fmt.Errorf("percolator: table %q: %w", table, withContext(ctx, err))
}

// missingFamily tells a table without one of our families from a missing table. Bigtable answers NotFound for both; its emulator has no
// code for a family ("unknown family").
func missingFamily(err error) bool {
	switch s := status.Convert(err); s.Code() {
	case codes.NotFound, codes.Unknown, codes.Internal:
		return strings.Contains(s.Message(), "unknown family") || strings.Contains(s.Message(), "column family not found")
	}
	return false
}
