package measure

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
)

// generator makes calls: it is a load generator.
type generator struct {
	callers int         // of run: each waits for its calls
	rate    float64     // calls a second, of all callers together; 0: each calls again at once
	random  bool        // of arrive: at random moments, a Poisson process; otherwise evenly spread
	more    func() bool // asked before each call but the first of all
	most    int64       // of arrive: calls under way at once; more are only counted. 0: no limit
}

// during is a more for so long.
func during(d time.Duration) func() bool {
	end := time.Now().Add(d)
	return func() bool { return time.Now().Before(end) }
}

// run lets each caller call when it is due and its last call is over, and waits for all of them. A
// call is told when it was due: one that is late counts as waiting. It ends at the first error.
func (g generator) run(ctx context.Context, call func(ctx context.Context, caller int, due time.Time) error) error {
	group, ctx := errgroup.WithContext(ctx)
	period := time.Duration(0)
	if g.rate > 0 {
		period = time.Duration(float64(g.callers) / g.rate * float64(time.Second))
	}
	started := time.Now()
	for caller := range g.callers {
		group.Go(func() error {
			// A context shared by all would be a lock that all calls take.
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			for due := started.Add(period * time.Duration(caller) / time.Duration(g.callers)); g.more(); due = due.Add(period) {
				if err := sleepUntil(ctx, due); err != nil {
					return err
				}
				if err := call(ctx, caller, due); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// arrive makes each call when it is due, whatever becomes of those before it, waits for all of
// them, and returns how many were due and how many of these were shed.
func (g generator) arrive(ctx context.Context, call func(ctx context.Context, i int) error) (due, shed int, err error) {
	group, ctx := errgroup.WithContext(ctx)
	random := rand.New(rand.NewPCG(1, 2))
	var pending atomic.Int64
	next := time.Now()
	for ; ; due++ {
		wait := 1.0
		if g.random {
			wait = random.ExpFloat64()
		}
		next = next.Add(time.Duration(wait / g.rate * float64(time.Second)))
		if sleepUntil(ctx, next) != nil || due > 0 && !g.more() {
			return due, shed, group.Wait()
		}
		if pending.Add(1) > g.most && g.most > 0 {
			pending.Add(-1)
			shed++
			continue
		}
		i := due
		group.Go(func() error {
			defer pending.Add(-1)
			return call(ctx, i)
		})
	}
}

// pause ends early with ctx, which the caller checks.
func pause(ctx context.Context, d time.Duration) { _ = sleepUntil(ctx, time.Now().Add(d)) }

// soon is a wait that need not be broken off: time.Sleep allocates nothing.
const soon = 10 * time.Millisecond

func sleepUntil(ctx context.Context, at time.Time) error {
	wait := time.Until(at)
	if wait <= soon {
		time.Sleep(wait)
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// recorder records latencies from many goroutines. Quantiles have three digits; mean and maximum
// are exact. One that is not positive counts as the shortest.
type recorder struct {
	mu        sync.Mutex
	Histogram *histogram // nil: nothing was recorded
	Sum, Max  time.Duration
}

// histogram is one that can go to another process.
type histogram struct{ *hdrhistogram.Histogram }

// MarshalJSON implements json.Marshaler.
func (h *histogram) MarshalJSON() ([]byte, error) { return json.Marshal(h.Export()) }

// UnmarshalJSON implements json.Unmarshaler.
func (h *histogram) UnmarshalJSON(text []byte) error {
	var s hdrhistogram.Snapshot
	err := json.Unmarshal(text, &s)
	h.Histogram = hdrhistogram.Import(&s)
	return err
}

// longest is the greatest latency that is told from greater ones, and shortest the least.
const (
	longest  = 10 * time.Minute
	shortest = time.Microsecond
)

func (r *recorder) record(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Histogram == nil {
		r.Histogram = &histogram{hdrhistogram.New(int64(shortest), int64(longest), 3)}
	}
	_ = r.Histogram.RecordValue(int64(min(max(d, shortest), longest))) // it is in range
	r.Sum, r.Max = r.Sum+d, max(r.Max, d)
}

func recorded(all []time.Duration) *recorder {
	r := new(recorder)
	for _, d := range all {
		r.record(d)
	}
	return r
}

func (r *recorder) count() int64 {
	if r.Histogram == nil {
		return 0
	}
	return r.Histogram.TotalCount()
}

// ms is a quantile in milliseconds; 100 is the maximum.
func (r *recorder) ms(quantile float64) float64 {
	if r.Histogram == nil || quantile == 100 {
		return milliseconds(r.Max)
	}
	return milliseconds(min(time.Duration(r.Histogram.ValueAtQuantile(quantile)), r.Max))
}

func (r *recorder) mean() float64 { return milliseconds(r.Sum) / float64(max(r.count(), 1)) }

// into adds the figures of a distribution to a row.
func (r *recorder) into(row *report.Row) {
	row.Add("n", r.count(), "p50, ms", r.ms(50), "p90, ms", r.ms(90), "p99, ms", r.ms(99), "p99.9, ms", r.ms(99.9),
		"max, ms", r.ms(100), "mean, ms", r.mean())
}

// line is which share of all is at most so long, for a logarithmic axis.
func (r *recorder) line(name string) report.Line {
	l := report.Line{Name: name, Steps: true}
	for at := 0.0; at <= 100 && r.count() > 0; at += 0.1 {
		l.X, l.Y = append(l.X, max(r.ms(at), 0.01)), append(l.Y, at)
	}
	return l
}

// merge adds what another one has recorded, which is not used any more.
func (r *recorder) merge(other *recorder) {
	if r.Histogram == nil {
		r.Histogram = other.Histogram
	} else if other.Histogram != nil {
		r.Histogram.Merge(other.Histogram.Histogram)
	}
	r.Sum, r.Max = r.Sum+other.Sum, max(r.Max, other.Max)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
