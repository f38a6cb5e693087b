package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/retry"
	"github.com/gopercolator/percolator/internal/telemetry"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ConnectTimeout bounds connecting to an instance.
const ConnectTimeout = 30 * time.Second

// Store is the four operations of Bigtable on which everything rests. It adds deadlines, counts, and nothing else:
// ReadRows and MutateRows are retried by Google's client, CheckAndMutateRow never is.
type Store struct {
	Bigtable *bigtable.Client
	Timing   model.Timing // with defaults; every request is bounded by its lifetime (I14)
	Count    *telemetry.Counters
	Metrics  *telemetry.Instruments // nil: none
	tables   sync.Map               // name → *bigtable.Table
	Trace    telemetry.Spans

	// Background ends when the client is closed: requests that it cut off are not sent again.
	Background context.Context
	Stop       context.CancelFunc
	Closed     atomic.Bool // before background ends: nothing new begins
}

func New(ctx context.Context, bt *bigtable.Client, count *telemetry.Counters) *Store {
	s := &Store{Bigtable: bt, Count: count, Timing: model.DefaultTiming}
	s.Background, s.Stop = context.WithCancel(ctx)
	return s
}

// Connect opens the data client with the settings that transactions need: no direct access and no sessions unless
// measured, and no metrics exported behind the user's back.
func Connect(ctx context.Context, project, instance, appProfile string, opts []option.ClientOption) (*bigtable.Client, error) {
	bt, err := bigtable.NewClientWithConfig(ctx, project, instance, bigtable.ClientConfig{
		AppProfile:          appProfile,
		MetricsProvider:     bigtable.NoopMetricsProvider{},
		DisableDirectAccess: true,
		DisableSession:      true,
	}, opts...)
	if err != nil {
		return nil, fmt.Errorf("percolator: bigtable client of %s/%s: %w", project, instance, model.WithContext(ctx, err))
	}
	return bt, nil
}

func (s *Store) Table(name string) *bigtable.Table {
	if t, ok := s.tables.Load(name); ok {
		return t.(*bigtable.Table)
	}
	t, _ := s.tables.LoadOrStore(name, s.Bigtable.Open(name))
	return t.(*bigtable.Table)
}

// bounded gives a request its lifetime (I14). A context that ends earlier is left as it is: a timer and a context more for each request
// would be a noticeable part of its cost.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if at, ok := ctx.Deadline(); ok && time.Until(at) <= s.Timing.RequestLifetime {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.Timing.RequestLifetime)
}

// ReadRow reads one row atomically; a missing row is nil.
func (s *Store) ReadRow(ctx context.Context, table, row string, f bigtable.Filter) (bigtable.Row, error) {
	if err := model.CheckContext(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	s.Count.ReadRows.Add(1)
	begun := time.Now()
	r, err := s.Table(table).ReadRow(ctx, row, bigtable.RowFilter(f))
	s.took(ctx, telemetry.OpReadRows, table, begun, err)
	if r != nil {
		s.Count.RowsRead.Add(1)
	}
	return r, s.Err(ctx, table, err)
}

// ReadRows streams rows in key order (each atomic by itself) until f returns false.
func (s *Store) ReadRows(ctx context.Context, table string, set bigtable.RowSet, f func(bigtable.Row) bool, opts ...bigtable.ReadOption) error {
	if err := model.CheckContext(ctx); err != nil {
		return err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	s.Count.ReadRows.Add(1)
	begun := time.Now()
	err := s.Table(table).ReadRows(ctx, set, func(r bigtable.Row) bool {
		s.Count.RowsRead.Add(1)
		return f(r)
	}, opts...)
	s.took(ctx, telemetry.OpReadRows, table, begun, err)
	return s.Err(ctx, table, err)
}

// CheckAndMutate applies onMatch if the predicate lets a cell of the row through, onMiss otherwise, and says which it
// was. Either may be nil. An error for which Ambiguous holds leaves open whether it was applied.
func (s *Store) CheckAndMutate(ctx context.Context, table, row string, predicate bigtable.Filter, onMatch, onMiss *bigtable.Mutation) (matched bool, err error) {
	if err := model.CheckContext(ctx); err != nil {
		return false, err
	}
	if s.Background.Err() != nil {
		return false, fmt.Errorf("percolator: %w", model.ErrClosed)
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	s.Count.CheckAndMutate.Add(1)
	s.Count.RowsMutated.Add(1)
	begun := time.Now()
	err = s.Table(table).Apply(ctx, row, bigtable.NewCondMutation(predicate, onMatch, onMiss), bigtable.GetCondMutationResult(&matched))
	s.took(ctx, telemetry.OpCheckAndMutate, table, begun, err)
	return matched, s.Err(ctx, table, err)
}

// MutateRows applies unconditional mutations, each atomic on its row; errs is nil or has an entry for each row.
func (s *Store) MutateRows(ctx context.Context, table string, rows []string, muts []*bigtable.Mutation) (errs []error, err error) {
	if err := model.CheckContext(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	s.Count.MutateRows.Add(1)
	s.Count.RowsMutated.Add(int64(len(rows)))
	begun := time.Now()
	errs, err = s.Table(table).ApplyBulk(ctx, rows, muts)
	s.took(ctx, telemetry.OpMutateRows, table, begun, err)
	for i, rowErr := range errs {
		errs[i] = s.Err(ctx, table, rowErr)
	}
	return errs, s.Err(ctx, table, err)
}

// took measures a request. What the caller of ReadRows does with a row is part of it.
func (s *Store) took(ctx context.Context, op telemetry.Operation, table string, begun time.Time, err error) {
	d := time.Since(begun)
	s.Count.Latency[op].Add(d)
	s.Metrics.Request(ctx, op, table, d, err)
}

// Err names the table, and the remedy where the table or a family does not exist.
func (s *Store) Err(ctx context.Context, table string, err error) error {
	if err == nil {
		return nil
	}
	if s.Background.Err() != nil {
		return fmt.Errorf("percolator: table %q: %w: %w", table, model.ErrClosed, err)
	}
	switch {
	case missingFamily(err):
		return fmt.Errorf("percolator: table %q: %w: it lacks a column family; CreateSchema adds it: %w", table, model.ErrSchemaMismatch, err)
	case status.Code(err) == codes.NotFound:
		return fmt.Errorf("percolator: table %q: %w: it does not exist in the instance; CreateSchema creates it: %w", table, model.ErrSchemaMismatch, err)
	}
	return fmt.Errorf("percolator: table %q: %w", table, model.WithContext(ctx, err))
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

// Retry repeats an idempotent conditional request while its outcome is unknown, for at most the request lifetime
// (I14). After a repetition "matched" may be the doing of the first sending; callers treat both alike.
func (c *Store) Retry(ctx context.Context, send func(context.Context) (bool, error)) (bool, error) {
	if err := model.CheckContext(ctx); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timing.RequestLifetime)
	defer cancel()
	pause := retry.New(5*time.Millisecond, time.Second)
	for {
		matched, err := send(ctx)
		if err == nil || !model.Ambiguous(err) || errors.Is(err, model.ErrClosed) {
			return matched, err
		}
		if perr := pause.Wait(ctx); perr != nil {
			return false, fmt.Errorf("%w: %w", err, perr)
		}
	}
}

func (c *Store) ReadVersions(ctx context.Context, table, row string, f bigtable.Filter) (layout.RowVersions, error) {
	r, err := c.ReadRow(ctx, table, row, f)
	if err != nil {
		return nil, err
	}
	return layout.DecodeRow(table, r), nil
}
