package measure

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/percolator"
)

// fig8Side is one of the two that are compared, and what it has done so far.
type fig8Side struct {
	rows   *fig8Rows
	op     func(ctx context.Context, w *fig8Walker) error
	finish func(ctx context.Context) error // inside the time of a slice; nil: nothing
	stats  func() percolator.Stats         // nil: of a raw client

	walkers       []*fig8Walker // of this repetition
	then          fig8Tally     // this repetition
	all           fig8Tally
	perSecond     []float64 // by repetition
	verified      int64
	perRow        float64 // writes between two erasures of old versions, at most
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
	begun := time.Now()
	if err := s.work(ctx, d); err != nil {
		return 0, err
	}
	done := fig8Tally{took: time.Since(begun)}
	after := s.reading()
	done.cpu = after.cpu - before.cpu
	for _, w := range s.walkers {
		done.operations += w.count
		done.conflicts += w.failed
	}
	if done.operations == 0 {
		return 0, fmt.Errorf("no operation succeeded in %v", done.took)
	}
	s.then.add(done)
	s.all.add(done)
	s.spent(before, after)
	return done.perSecond(), nil
}

// fig8Timeout is the deadline that callers give to what they do, on both sides, from the end of a
// slice. It is less than a request may take at most, as deadlines of callers are.
const fig8Timeout = 20 * time.Second

// work lets the goroutines work for d. An operation that has begun is finished, and so is what is
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
	var wg sync.WaitGroup
	errs := make([]error, len(s.walkers))
	for g, w := range s.walkers {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(ctx) // one for all would be a lock that all requests take
			defer cancel()
			for w.count, w.failed = 0, 0; w.count+w.failed == 0 || time.Now().Before(end); {
				switch err := s.op(ctx, w); {
				case err == nil:
					w.count++
				case errors.Is(err, percolator.ErrConflict) && !errors.Is(err, percolator.ErrOutcomeUnknown):
					w.failed++
				default:
					errs[g] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// fig8Reading is what this process and the client had used and done at a moment.
type fig8Reading struct {
	cpu           time.Duration
	allocs, bytes uint64
	stats         percolator.Stats
}

func (s *fig8Side) reading() (r fig8Reading) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r.allocs, r.bytes, r.cpu = m.Mallocs, m.TotalAlloc, cpuTime()
	if s.stats != nil {
		r.stats = s.stats()
	}
	return r
}

func (s *fig8Side) spent(before, after fig8Reading) {
	s.allocs += after.allocs - before.allocs
	s.bytes += after.bytes - before.bytes
	s.committed += after.stats.Transactions - before.stats.Transactions
	if s.requests == nil {
		s.requests = map[string]int64{}
	}
	for kind, n := range minus(after.stats.Requests, before.stats.Requests) {
		s.requests[kind] += n
	}
}

// fig8Trial is one operation at one number of goroutines.
type fig8Trial struct {
	fig8Kind
	goroutines     int
	ours, raw      *fig8Side
	ratio, overall []float64 // by repetition
	pairs          int
}

// repeat measures slices of both sides in turns. They change who comes first: whatever gets slower
// with time falls on both.
//
// The garbage collector is left alone. A collection before each slice would let most slices end
// before they have to pay for their own garbage, which is a gift to whoever makes more of it.
func (t *fig8Trial) repeat(ctx context.Context, b *fig8Benchmark) error {
	if t.ours == nil {
		t.ours, t.raw = t.sides()
	}
	for _, s := range []*fig8Side{t.raw, t.ours} {
		if err := s.prepare(ctx, t.goroutines, b.slice/4); err != nil {
			return err
		}
	}
	var ratios []float64
	for i := range int(b.duration/(2*b.slice)) | 1 { // an odd number has a middle
		ratio, err := t.pair(ctx, b.slice, i%2 == 1)
		if err != nil {
			return err
		}
		ratios = append(ratios, ratio)
		if max(t.ours.rows.dirty(), t.raw.rows.dirty()) > b.rows {
			if err := t.clean(ctx); err != nil {
				return err
			}
		}
	}
	t.pairs += len(ratios)
	t.ratio = append(t.ratio, report.Median(ratios))
	t.overall = append(t.overall, t.ours.then.perSecond()/t.raw.then.perSecond())
	for _, s := range []*fig8Side{t.ours, t.raw} {
		s.perSecond = append(s.perSecond, s.then.perSecond())
	}
	if t.write && t.ours.committed != t.ours.all.operations {
		return fmt.Errorf("the client counted %d commits, its callers %d", t.ours.committed, t.ours.all.operations)
	}
	return t.clean(ctx)
}

// pair returns the ratio of two neighbouring slices.
func (t *fig8Trial) pair(ctx context.Context, d time.Duration, oursFirst bool) (float64, error) {
	order := []*fig8Side{t.raw, t.ours}
	if oursFirst {
		slices.Reverse(order)
	}
	rates := map[*fig8Side]float64{}
	for _, s := range order {
		rate, err := s.slice(ctx, d)
		if err != nil {
			return 0, err
		}
		rates[s] = rate
	}
	return rates[t.ours] / rates[t.raw], nil
}

// clean compares a sample of what was written and makes rows that have grown small again, on both
// sides.
func (t *fig8Trial) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, gracePeriod)
	defer cancel()
	for _, s := range []*fig8Side{t.ours, t.raw} {
		n, err := s.rows.verify(ctx)
		if err != nil {
			return err
		}
		s.verified += n
		s.perRow = max(s.perRow, float64(s.rows.dirty())/float64(len(s.rows.keys)))
		most, err := s.rows.eraseOld(ctx)
		if err != nil {
			return err
		}
		s.mostOfRow = max(s.mostOfRow, most)
	}
	return nil
}
