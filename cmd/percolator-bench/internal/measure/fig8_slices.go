package measure

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"cloud.google.com/go/bigtable"
	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/percolator"
)

// fig8Side is one of the two that are compared, and what it has done so far.
type fig8Side struct {
	label  string // its operation, in the report
	rows   *fig8Rows
	op     fig8Op
	finish func(ctx context.Context) error // inside the time of a slice; nil: nothing
	stats  func() percolator.Stats         // nil: of a raw client

	walkers       []*fig8Walker // of this repetition
	then          fig8Tally     // this repetition
	all           fig8Tally
	perSecond     []float64 // by repetition
	verified      int64
	mostOfRow     int
	allocs, bytes uint64
	requests      map[string]int64
	committed     int64 // by the client's own count
}

// fig8Tally is what was done in which time.
type fig8Tally struct {
	operations, conflicts int64
	took, cpu             time.Duration
}

func (t *fig8Tally) add(u fig8Tally) {
	t.operations += u.operations
	t.conflicts += u.conflicts
	t.took += u.took
	t.cpu += u.cpu
}

func (t *fig8Tally) perSecond() float64 { return float64(t.operations) / t.took.Seconds() }

// prepare gives each goroutine its share of the rows. A first slice is not counted: connections,
// queues, and the stacks of the emulator's goroutines are there afterwards.
func (s *fig8Side) prepare(ctx context.Context, goroutines int, d time.Duration) error {
	s.walkers, s.then = make([]*fig8Walker, goroutines), fig8Tally{}
	for g := range s.walkers {
		s.walkers[g] = newFig8Walker(s.rows, g, goroutines)
	}
	return s.work(ctx, d)
}

// slice runs the operation in all goroutines for d, and returns operations a second.
func (s *fig8Side) slice(ctx context.Context, d time.Duration) (float64, error) {
	before := s.reading()
	started := time.Now()
	if err := s.work(ctx, d); err != nil {
		return 0, err
	}
	done := fig8Tally{took: time.Since(started)}
	after := s.reading()
	done.cpu = after.cpu - before.cpu
	s.allocs += after.memory.Mallocs - before.memory.Mallocs
	s.bytes += after.memory.TotalAlloc - before.memory.TotalAlloc
	s.committed += after.stats.Transactions - before.stats.Transactions
	addTo(&s.requests, minus(after.stats.Requests, before.stats.Requests))
	for _, w := range s.walkers {
		done.operations += w.count
		done.conflicts += w.failed
	}
	if done.operations == 0 {
		return 0, fmt.Errorf("no operation succeeded in %v", done.took)
	}
	s.then.add(done)
	s.all.add(done)
	return done.perSecond(), nil
}

// fig8Timeout is the deadline that callers give to what they do, on both sides, from the end of a
// slice. It is less than a request may take at most, as deadlines of callers are.
const fig8Timeout = 20 * time.Second

// work lets the goroutines work for d. An operation that has started is finished, and so is what is
// left in the background, before it returns.
func (s *fig8Side) work(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d+fig8Timeout)
	defer cancel()
	if err := s.crowd(ctx, time.Now().Add(d)); err != nil || s.finish == nil {
		return err
	}
	return s.finish(ctx)
}

// crowd returns when every goroutine has finished the operation during which the time was up. Each
// tries one at least.
func (s *fig8Side) crowd(ctx context.Context, end time.Time) error {
	var group errgroup.Group
	for _, w := range s.walkers {
		group.Go(func() error {
			// A context shared by all would be a lock that all requests take.
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			for w.count, w.failed = 0, 0; w.count+w.failed == 0 || time.Now().Before(end); {
				switch err := s.op(ctx, w); {
				case err == nil:
					w.count++
				case errors.Is(err, percolator.ErrConflict) && !errors.Is(err, percolator.ErrOutcomeUnknown):
					w.failed++
				default:
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// fig8Reading is what this process and the client had used and done at a moment.
type fig8Reading struct {
	cpu    time.Duration
	memory runtime.MemStats
	stats  percolator.Stats
}

func (s *fig8Side) reading() (r fig8Reading) {
	runtime.ReadMemStats(&r.memory)
	r.cpu = cpuTime()
	if s.stats != nil {
		r.stats = s.stats()
	}
	return r
}

// fig8Trial is one operation at one number of goroutines.
type fig8Trial struct {
	fig8Kind
	goroutines     int
	ratio, overall []float64 // by repetition
	pairs          int
}

// repeat measures slices of both sides in turns. They change who comes first: whatever gets slower
// with time falls on both.
//
// The garbage collector is left alone. A collection before each slice would let most slices end
// before they have to pay for their own garbage, which favours the side that makes more of it.
func (t *fig8Trial) repeat(ctx context.Context, b *fig8Benchmark) error {
	order := []*fig8Side{&t.raw, &t.ours}
	for _, s := range order {
		if err := s.prepare(ctx, t.goroutines, b.Slice/4); err != nil {
			return err
		}
	}
	var ratios []float64
	rates := map[*fig8Side]float64{}
	for range int(b.Duration/(2*b.Slice)) | 1 { // an odd number has a middle
		for _, s := range order {
			rate, err := s.slice(ctx, b.Slice)
			if err != nil {
				return err
			}
			rates[s] = rate
		}
		slices.Reverse(order)
		ratios = append(ratios, rates[&t.ours]/rates[&t.raw])
		if max(t.ours.rows.dirty(), t.raw.rows.dirty()) > b.Rows {
			if err := t.clean(ctx); err != nil {
				return err
			}
		}
	}
	t.pairs += len(ratios)
	t.ratio = append(t.ratio, report.Median(ratios))
	t.overall = append(t.overall, t.ours.then.perSecond()/t.raw.then.perSecond())
	for _, s := range order {
		s.perSecond = append(s.perSecond, s.then.perSecond())
	}
	if t.write && t.ours.committed != t.ours.all.operations {
		return fmt.Errorf("the client counted %d commits, its callers %d", t.ours.committed, t.ours.all.operations)
	}
	return t.clean(ctx)
}

// clean compares a sample of what was written and makes rows that have grown small again, on both
// sides.
func (t *fig8Trial) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, gracePeriod)
	defer cancel()
	for _, s := range []*fig8Side{&t.ours, &t.raw} {
		n, err := s.rows.verify(ctx)
		if err != nil {
			return err
		}
		s.verified += n
		most, err := s.rows.eraseOld(ctx)
		if err != nil {
			return err
		}
		s.mostOfRow = max(s.mostOfRow, most)
	}
	return nil
}

// fig8Rows is one table of the benchmark, in which every row has one cell, and what was last
// written to each row. A row is used by one goroutine at a time.
type fig8Rows struct {
	keys   []string
	size   int      // bytes of a value
	writes []uint32 // acknowledged, by row; the newest value says how many
	erased []uint32 // of writes, by row: how many there were when old versions were erased

	table    *bigtable.Table // without the protocol
	versions bool            // each write leaves another version behind

	// read returns the newest values, with the protocol where there is one.
	read func(ctx context.Context, keys []string) ([][]byte, error)
}

func newFig8Rows(rows, size int) *fig8Rows {
	r := &fig8Rows{size: size, keys: make([]string, rows), writes: make([]uint32, rows), erased: make([]uint32, rows)}
	for i := range r.keys {
		r.keys[i] = rowName(i)
	}
	return r
}

// fill makes the value that the nth write of a row stores. No other write of the table stores the
// same.
func (r *fig8Rows) fill(value []byte, row int, n uint32) []byte {
	value = binary.BigEndian.AppendUint32(value[:0], uint32(row))
	value = binary.BigEndian.AppendUint32(value, n)
	for len(value) < r.size {
		value = append(value, 'a'+byte(len(value)%26))
	}
	return value
}

// check compares what was read with what was last written.
func (r *fig8Rows) check(scratch []byte, row int, got []byte) error {
	if !bytes.Equal(got, r.fill(scratch, row, r.writes[row])) {
		return fmt.Errorf("row %s: %d bytes that are not those of its write number %d", r.keys[row], len(got), r.writes[row])
	}
	return nil
}

// fig8Batch is how many rows are compared or cleaned at once.
const fig8Batch = 512

// load stores the first value of every row without the protocol.
func (r *fig8Rows) load(ctx context.Context, mutation func(value []byte) *bigtable.Mutation) error {
	row := 0
	for keys := range slices.Chunk(r.keys, 4*bulkRows) {
		muts := make([]*bigtable.Mutation, len(keys))
		for i := range muts {
			muts[i] = mutation(r.fill(nil, row, 0))
			row++
		}
		if err := applyBulk(ctx, r.table, keys, muts); err != nil {
			return fmt.Errorf("loading rows: %w", err)
		}
	}
	return nil
}

// dirty is how many writes there were since old versions were last erased.
func (r *fig8Rows) dirty() (writes int) {
	for row := range r.writes {
		writes += int(r.writes[row] - r.erased[row])
	}
	return writes
}

// written are the rows that were written since.
func (r *fig8Rows) written() (rows []int) {
	for row := range r.writes {
		if r.writes[row] != r.erased[row] {
			rows = append(rows, row)
		}
	}
	return rows
}

// verify reads at most one batch of the rows that were written, spread over all of them, and
// returns how many.
func (r *fig8Rows) verify(ctx context.Context) (int64, error) {
	written := r.written()
	var sample []int
	var keys []string
	for i, step := 0, len(written)/fig8Batch+1; i < len(written); i += step {
		sample, keys = append(sample, written[i]), append(keys, r.keys[written[i]])
	}
	if len(sample) == 0 {
		return 0, nil
	}
	values, err := r.read(ctx, keys)
	if err != nil {
		return 0, err
	}
	for i, row := range sample {
		if err := r.check(nil, row, values[i]); err != nil {
			return 0, fmt.Errorf("read back: %w", err)
		}
	}
	return int64(len(sample)), nil
}

// eraseOld leaves of each row that was written only its newest version in each family, as a
// collector would: rows that grow would make the measurements that come later slower. A lock in any
// of these rows is an error, as everything has been settled. most is how many writes a row had
// seen.
func (r *fig8Rows) eraseOld(ctx context.Context) (most int, err error) {
	var keys []string
	for _, row := range r.written() {
		most = max(most, int(r.writes[row]-r.erased[row]))
		keys = append(keys, r.keys[row])
	}
	copy(r.erased, r.writes)
	if !r.versions {
		return most, nil
	}
	for batch := range slices.Chunk(keys, fig8Batch) {
		if err := r.eraseOldOf(ctx, batch); err != nil {
			return 0, fmt.Errorf("erasing old versions: %w", err)
		}
	}
	return most, nil
}

func (r *fig8Rows) eraseOldOf(ctx context.Context, keys []string) error {
	var muts []*bigtable.Mutation
	var rows []string
	var left error
	err := r.table.ReadRows(ctx, bigtable.RowList(keys), func(row bigtable.Row) bool {
		mut := bigtable.NewMutation()
		for family, items := range row {
			if family == "lock" {
				left = fmt.Errorf("row %s: a lock was left behind", row.Key())
			}
			for _, it := range items {
				mut.DeleteTimestampRange(family, it.Column[len(family)+1:], 0, it.Timestamp)
			}
		}
		rows, muts = append(rows, row.Key()), append(muts, mut)
		return true
	}, bigtable.RowFilter(bigtable.ChainFilters(bigtable.LatestNFilter(1), bigtable.StripValueFilter())))
	if err = errors.Join(err, left); err != nil {
		return err
	}
	return applyBulk(ctx, r.table, rows, muts)
}

// readRaw reads the newest cell of a family of each row without the protocol.
func (r *fig8Rows) readRaw(family string) func(ctx context.Context, keys []string) ([][]byte, error) {
	return func(ctx context.Context, keys []string) ([][]byte, error) {
		found := make(map[string][]byte, len(keys))
		err := r.table.ReadRows(ctx, bigtable.RowList(keys), func(row bigtable.Row) bool {
			found[row.Key()] = row[family][0].Value
			return true
		}, bigtable.RowFilter(bigtable.ChainFilters(bigtable.FamilyFilter(family), bigtable.LatestNFilter(1))))
		values := make([][]byte, len(keys))
		for i, key := range keys {
			values[i] = found[key]
		}
		return values, err
	}
}

// fig8Walker is one goroutine's way through its share of the rows.
type fig8Walker struct {
	rows *fig8Rows
	own  []int
	next int

	snapshot *percolator.Snapshot // that it reads from
	gets     int                  // so far
	values   [fig8TxnRows][]byte  // scratch
	count    int64                // operations of this slice
	failed   int64                // conflicts of this slice
}

func newFig8Walker(rows *fig8Rows, goroutine, goroutines int) *fig8Walker {
	w := &fig8Walker{rows: rows}
	for row := goroutine; row < len(rows.keys); row += goroutines {
		w.own = append(w.own, row)
	}
	// Both sides visit the same keys.
	random := rand.New(rand.NewPCG(uint64(goroutine), uint64(goroutines)))
	random.Shuffle(len(w.own), func(i, j int) { w.own[i], w.own[j] = w.own[j], w.own[i] })
	for i := range w.values {
		w.values[i] = make([]byte, 0, rows.size)
	}
	return w
}

// step is the next row of the walker. It comes again after all others.
func (w *fig8Walker) step() (row int) {
	row = w.own[w.next]
	w.next = (w.next + 1) % len(w.own)
	return row
}

// draft is the value that the row is to have after its next write, in a scratch buffer. wrote says
// that it was written.
func (w *fig8Walker) draft(buffer, row int) []byte {
	w.values[buffer] = w.rows.fill(w.values[buffer], row, w.rows.writes[row]+1)
	return w.values[buffer]
}

func (w *fig8Walker) wrote(rows ...int) {
	for _, row := range rows {
		w.rows.writes[row]++
	}
}
