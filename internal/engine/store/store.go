// Package store is what the engine needs of Bigtable: four operations on rows, with queries and
// mutations of its own. It sits on layout; google.go and googlefilters.go alone know Google's
// client.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Backend is what the engine needs of a store: four operations and where tables are cut. Reads and
// mutations are atomic on a row. Everything else rests on these.
type Backend interface {
	// ReadRow reads one row; a missing one has no items.
	ReadRow(ctx context.Context, table, row string, q Query) (layout.Row, error)
	// ReadRows visits at most limit rows (0: all) in the order of rows until visit returns false.
	// passed, if not nil, is called between two visits, and before an error, with the last key up
	// to which the store says that it has passed over rows that the query does not let through.
	ReadRows(ctx context.Context, table string, rows Rows, q Query, limit int, passed func(key string), visit func(layout.Row) bool) error
	// CheckAndMutate applies onMatch if the predicate finds a cell, onMiss otherwise. It is sent
	// once.
	CheckAndMutate(ctx context.Context, table, row string, predicate Query, onMatch, onMiss *Mutation) (matched bool, err error)
	// MutateRows may be sent several times: mutations are idempotent.
	MutateRows(ctx context.Context, table string, rows []string, muts []*Mutation) ([]error, error)
	// SampleKeys lists keys at which the table is cut into tablets; there may be none.
	SampleKeys(ctx context.Context, table string) ([]string, error)
	Close() error
}

// ConnectTimeout bounds connecting to an instance.
const ConnectTimeout = 30 * time.Second

// Store is the four operations of Bigtable on which everything rests. It adds deadlines and counts,
// and nothing else: Google's client retries ReadRows and MutateRows, and never CheckAndMutateRow.
// It is safe for concurrent use.
type Store struct {
	backend Backend
	Timing  model.Timing // with defaults; every request is bounded by its lifetime (I14)
	Count   *telemetry.Counters
	Metrics *telemetry.Instruments // nil: none
	Trace   telemetry.Spans
	Tablets Tablets

	Outage, OracleOutage *Outage // nil: none is logged

	Pressure    Backpressure
	Conditional slowness // of CheckAndMutate

	// Background ends when the client closes: a request that it cuts off is not sent again.
	Background context.Context
	Stop       context.CancelFunc // ends Background
	Closed     atomic.Bool        // set before Background ends: nothing new begins
}

// New puts a Store with the default timing on a backend, which it owns from then on.
func New(ctx context.Context, backend Backend, count *telemetry.Counters) *Store {
	s := &Store{backend: backend, Count: count, Timing: model.DefaultTiming}
	s.Background, s.Stop = context.WithCancel(ctx)
	s.Tablets.store, s.Tablets.byName = s, map[string]*tableBounds{}
	return s
}

// bounded gives a request its lifetime (I14). It leaves a context that ends earlier as it is: a
// timer and a context more for each request would be a noticeable part of its cost.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if at, ok := ctx.Deadline(); ok && time.Until(at) <= s.Timing.RequestLifetime {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.Timing.RequestLifetime)
}

// ReadRow reads one row atomically; a missing row has no items.
func (s *Store) ReadRow(ctx context.Context, table, row string, q Query) (layout.Row, error) {
	if err := s.usable(ctx); err != nil {
		return layout.Row{}, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	var r layout.Row
	err := s.calmly(ctx, table, 0, func() (err error) {
		s.Count.ReadRows.Add(1)
		s.Outage.Asked()
		started := time.Now()
		r, err = s.backend.ReadRow(ctx, table, row, q)
		s.took(ctx, telemetry.OpReadRows, table, started, err)
		return err
	})
	if !r.Missing() {
		s.received(r)
	}
	return r, s.Err(ctx, table, err)
}

// calmly sends what is safe to repeat, again where Bigtable asks to slow down. An error is that of
// the last attempt.
func (s *Store) calmly(ctx context.Context, table string, mutations int, send func() error) error {
	for {
		a, err := s.admit(ctx, table, mutations)
		if err != nil {
			return err
		}
		err = send()
		a.leave(err)
		if _, slow := retry.SlowDown(err); !slow || ctx.Err() != nil {
			return err
		}
		AttemptsOf(ctx).lost() // it says nothing about the rows
	}
}

// LargeRow is the size from which on a row counts as large: Bigtable sends no row above 256 MiB,
// and a quarter of that leaves time to divide it.
const LargeRow = 64 << 20

// received counts a row.
func (s *Store) received(r layout.Row) {
	s.Outage.Heard()
	s.Count.RowsRead.Add(1)
	if r.Size() >= LargeRow {
		s.Count.LargeRows.Add(1)
	}
}

// ReadRows streams at most limit rows (0: all) in their order, each atomic by itself, until visit
// returns false. It is one request, for rows that are named or known to be few: ReadPage and Pass
// read ranges of any size.
func (s *Store) ReadRows(ctx context.Context, table string, rows Rows, q Query, limit int, visit func(layout.Row) bool) error {
	return s.readRows(ctx, table, rows, q, limit, nil, visit)
}

func (s *Store) readRows(ctx context.Context, table string, rows Rows, q Query, limit int, passed func(key string), visit func(layout.Row) bool) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	visited, last := 0, ""
	var told func(key string)
	if passed != nil {
		told = func(key string) {
			s.Outage.Heard()
			last = key
			passed(key)
		}
	}
	err := s.calmly(ctx, table, 0, func() error {
		ask, most := rows, limit
		if last != "" { // it is repeated from where it had come to
			if limit > 0 {
				if most -= visited; most == 0 {
					return nil
				}
			}
			if ask = rows.past(last); ask.none() {
				return nil
			}
		}
		s.Count.ReadRows.Add(1)
		s.Outage.Asked()
		started := time.Now()
		err := s.backend.ReadRows(ctx, table, ask, q, most, told, func(r layout.Row) bool {
			s.received(r)
			visited, last = visited+1, r.Key
			return visit(r)
		})
		s.took(ctx, telemetry.OpReadRows, table, started, err)
		return err
	})
	return s.Err(ctx, table, err)
}

// CheckAndMutate applies onMatch if the predicate finds a cell of the row, onMiss otherwise, and
// reports which. Either may be nil. After an ambiguous error the store may have applied it.
func (s *Store) CheckAndMutate(ctx context.Context, table, row string, predicate Query, onMatch, onMiss *Mutation) (matched bool, err error) {
	return s.checkAndMutate(ctx, table, row, predicate, max(onMatch.len(), onMiss.len()), func() (*Mutation, *Mutation) { return onMatch, onMiss })
}

// CheckAndMutateOnMiss is CheckAndMutate with a mutation that is made when the request is sent,
// which may be long after the call: it has so many changes.
func (s *Store) CheckAndMutateOnMiss(ctx context.Context, table, row string, predicate Query, changes int, onMiss func() *Mutation) (matched bool, err error) {
	return s.checkAndMutate(ctx, table, row, predicate, changes, func() (*Mutation, *Mutation) { return nil, onMiss() })
}

func (s *Store) checkAndMutate(ctx context.Context, table, row string, predicate Query, changes int, mutations func() (onMatch, onMiss *Mutation)) (matched bool, err error) {
	if err := s.usable(ctx); err != nil {
		return false, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	asked := time.Now()
	a, err := s.admit(ctx, table, changes)
	if err != nil {
		return false, notSent{s.Err(ctx, table, err)}
	}
	s.Count.CheckAndMutate.Add(1)
	s.Count.RowsMutated.Add(1)
	s.Outage.Asked()
	started := time.Now()
	onMatch, onMiss := mutations()
	matched, err = s.backend.CheckAndMutate(ctx, table, row, predicate, onMatch, onMiss)
	a.leave(err)
	s.took(ctx, telemetry.OpCheckAndMutate, table, started, err)
	s.Conditional.Note(time.Since(asked))
	return matched, s.Err(ctx, table, err)
}

// MutateRows applies unconditional mutations, each atomic on its row; errs is nil or has an entry
// for each row.
func (s *Store) MutateRows(ctx context.Context, table string, rows []string, muts []*Mutation) (errs []error, err error) {
	if err := retry.CheckContext(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	b := bulk{rows: rows, muts: muts, left: make([]int, len(rows))}
	mutations := 0
	for i, m := range muts {
		b.left[i] = i
		mutations += len(m.changes)
	}
	err = s.calmly(ctx, table, mutations, func() error { return s.mutateRows(ctx, table, &b) })
	for i, rowErr := range b.errs {
		b.errs[i] = s.Err(ctx, table, rowErr)
	}
	if _, slow := retry.SlowDown(err); slow && b.errs != nil { // they say it
		err = nil
	}
	return b.errs, s.Err(ctx, table, err)
}

// bulk is mutations of rows, of which some are left to send.
type bulk struct {
	rows []string
	muts []*Mutation
	left []int   // positions
	errs []error // nil, or one for each row
}

// mutateRows sends what is left of a bulk once. What is left then is what Bigtable asks to send
// later, and the error one of its errors.
func (s *Store) mutateRows(ctx context.Context, table string, b *bulk) (err error) {
	rows, muts := b.rows, b.muts
	if len(b.left) < len(rows) {
		rows, muts = make([]string, len(b.left)), make([]*Mutation, len(b.left))
		for i, at := range b.left {
			rows[i], muts[i] = b.rows[at], b.muts[at]
		}
	}
	s.Count.MutateRows.Add(1)
	s.Outage.Asked()
	s.Count.RowsMutated.Add(int64(len(rows)))
	started := time.Now()
	errs, err := s.backend.MutateRows(ctx, table, rows, muts)
	s.took(ctx, telemetry.OpMutateRows, table, started, err)
	if err != nil && len(b.left) == len(b.rows) {
		b.errs = nil
		return err
	}
	if err != nil { // the others have their answers
		for _, at := range b.left {
			b.errs[at] = err
		}
		if _, slow := retry.SlowDown(err); !slow {
			err = nil
		}
		return err
	}
	sent := b.left
	if b.left = nil; errs != nil && b.errs == nil {
		b.errs = make([]error, len(b.rows))
	}
	for i, at := range sent {
		if b.errs == nil {
			break
		}
		b.errs[at] = nil
		if errs == nil {
			continue
		}
		b.errs[at] = errs[i]
		if _, slow := retry.SlowDown(errs[i]); slow {
			b.left, err = append(b.left, at), errs[i]
		}
	}
	return err
}

// Mutate applies an unconditional mutation to one row.
func (s *Store) Mutate(ctx context.Context, table, row string, m *Mutation) error {
	errs, err := s.MutateRows(ctx, table, []string{row}, []*Mutation{m})
	if err == nil && len(errs) > 0 {
		err = errs[0]
	}
	return err
}

// SampleKeys lists the end keys of the table's tablets in order, as far as Bigtable tells; the list
// may be empty.
func (s *Store) SampleKeys(ctx context.Context, table string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timing.RequestLifetime)
	defer cancel()
	var keys []string
	err := s.calmly(ctx, table, 0, func() (err error) {
		s.Count.Samples.Add(1)
		s.Outage.Asked()
		keys, err = s.backend.SampleKeys(ctx, table)
		s.Outage.Ended(err)
		return err
	})
	slices.Sort(keys)
	return keys, s.Err(ctx, table, err)
}

// MetaTimestamp is the timestamp of every cell of the meta family: a new value replaces the old
// one.
const MetaTimestamp = tso.Timestamp(1)

// took measures a request, including what the caller of ReadRows does with a row.
func (s *Store) took(ctx context.Context, op telemetry.Operation, table string, started time.Time, err error) {
	s.Outage.Ended(err)
	d := time.Since(started)
	s.Count.Latency[op].Add(d)
	s.Metrics.Request(ctx, op, table, d, err)
}

// usable refuses a context that has ended, and what begins after Close. A connection that the
// caller made, such as that of BIGTABLE_EMULATOR_HOST, stays open then.
func (s *Store) usable(ctx context.Context) error {
	if err := retry.CheckContext(ctx); err != nil {
		return err
	}
	if s.Background.Err() != nil {
		return fmt.Errorf("percolator: %w", model.ErrClosed)
	}
	return nil
}

// Err names the table, and the remedy where something that the request names does not exist.
func (s *Store) Err(ctx context.Context, table string, err error) error {
	if err == nil {
		return nil
	}
	if s.Background.Err() != nil {
		return fmt.Errorf("percolator: table %q: %w: %w", table, model.ErrClosed, err)
	}
	if _, slow := retry.SlowDown(err); slow && !errors.Is(err, model.ErrOverloaded) {
		return fmt.Errorf("percolator: table %q: %w: %w", table, model.ErrOverloaded, retry.WithContext(ctx, err))
	}
	if remedy, sentinel := missing(err); sentinel != nil {
		return fmt.Errorf("percolator: table %q: %w: %s: %w", table, sentinel, remedy, err)
	}
	return fmt.Errorf("percolator: table %q: %w", table, retry.WithContext(ctx, err))
}

// missing tells what Bigtable did not find, by its message: it answers NotFound for a table, a
// family, an app profile and an instance alike. Its emulator has no code for a family. A nil
// sentinel: nothing is missing.
func missing(err error) (remedy string, sentinel error) {
	st := status.Convert(err)
	says := strings.ToLower(st.Message())
	switch code := st.Code(); {
	case code != codes.NotFound && code != codes.Unknown && code != codes.Internal:
		return "", nil
	case strings.Contains(says, "unknown family"), strings.Contains(says, "column family not found"):
		return "it lacks a column family; percolator schema apply, or CreateSchema, adds it", model.ErrSchemaMismatch
	case code != codes.NotFound:
		return "", nil
	case strings.Contains(says, "app profile"):
		return "the instance has no such app profile; correct Config.AppProfile or Config.BackgroundAppProfile, or create it; percolator check tells whether transactions can use it", model.ErrInvalidArgument
	case strings.Contains(says, "table"):
		return "it does not exist in the instance; percolator schema apply, or CreateSchema, creates it", model.ErrSchemaMismatch
	}
	return "the project or the instance does not exist; correct their names", model.ErrInvalidArgument
}

// Retry repeats an idempotent conditional request while its outcome is ambiguous, for at most the
// request lifetime (I14). After a repetition the first attempt may have caused the match; callers
// treat both alike.
func (s *Store) Retry(ctx context.Context, send func(context.Context) (bool, error)) (bool, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timing.RequestLifetime)
	defer cancel()
	pause := retry.NewBackoff(5*time.Millisecond, time.Second)
	for {
		matched, err := send(ctx)
		if err == nil || !retry.Ambiguous(err) || errors.Is(err, model.ErrClosed) {
			return matched, err
		}
		if perr := pause.Wait(ctx); perr != nil {
			return false, fmt.Errorf("%w: %w", err, perr)
		}
	}
}

// ReadVersions reads one row atomically and decodes it.
func (s *Store) ReadVersions(ctx context.Context, table, row string, q Query) (layout.RowVersions, error) {
	r, err := s.ReadRow(ctx, table, row, q)
	if err != nil {
		return nil, err
	}
	return layout.DecodeRow(table, r), nil
}

// Close ends what is in flight in the background and releases the connections.
func (s *Store) Close() error {
	s.Stop()
	return s.backend.Close()
}

// Settings are the parts of a client's configuration that the layers of the engine need, defaults
// filled in.
type Settings struct {
	Project, Instance string

	LockTTL         time.Duration // after it others may judge an unrefreshed lock dead
	Retention       time.Duration // how far back snapshots reach
	MaxParallelism  int           // requests that one commit or GetMulti has in flight
	DisableBatching bool          // reads of several rows send one request for each row
	DisablePrefetch bool          // reads of several columns send one request for each column
	DisableHints    bool          // neither tells the oracle of notified cells nor asks it for them
	Logger          *slog.Logger
}
