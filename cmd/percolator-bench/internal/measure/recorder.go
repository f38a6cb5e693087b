package measure

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
)

// recorder records latencies from many goroutines. Quantiles have three digits; mean and maximum are exact. One that is not positive
// counts as the shortest.
type recorder struct {
	mu        sync.Mutex
	histogram *hdrhistogram.Histogram // nil: nothing was recorded
	sum, max  time.Duration
}

// longest is the greatest latency that is told from greater ones, and shortest the least.
const (
	longest  = 10 * time.Minute
	shortest = time.Microsecond
)

func (r *recorder) record(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.histogram == nil {
		r.histogram = hdrhistogram.New(int64(shortest), int64(longest), 3)
	}
	_ = r.histogram.RecordValue(int64(min(max(d, shortest), longest))) // it is in range
	r.sum, r.max = r.sum+d, max(r.max, d)
}

func recorded(all []time.Duration) *recorder {
	r := new(recorder)
	for _, d := range all {
		r.record(d)
	}
	return r
}

func (r *recorder) count() int64 {
	if r.histogram == nil {
		return 0
	}
	return r.histogram.TotalCount()
}

// ms is a quantile in milliseconds; 100 is the maximum.
func (r *recorder) ms(quantile float64) float64 {
	if r.histogram == nil || quantile == 100 {
		return milliseconds(r.max)
	}
	return milliseconds(min(time.Duration(r.histogram.ValueAtQuantile(quantile)), r.max))
}

func (r *recorder) mean() float64 { return milliseconds(r.sum) / float64(max(r.count(), 1)) }

// into adds the figures of a distribution to a row.
func (r *recorder) into(row *report.Row) {
	report.Add(row, "n", "", r.count())
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}, {"max", 100}} {
		report.Add(row, q.name, "ms", r.ms(q.at))
	}
	report.Add(row, "mean", "ms", r.mean())
}

// line is which share of all is at most so long, for a logarithmic axis.
func (r *recorder) line(name string) report.Line {
	l := report.Line{Name: name, Steps: true}
	for at := 0.0; at <= 100 && r.count() > 0; at += 0.1 {
		l.X, l.Y = append(l.X, max(r.ms(at), 0.01)), append(l.Y, at)
	}
	return l
}

// recording is a recorder on its way to another process.
type recording struct {
	Histogram *hdrhistogram.Snapshot `json:"histogram,omitempty"`
	Sum       time.Duration          `json:"sum"`
	Max       time.Duration          `json:"max"`
}

func (r *recorder) export() recording {
	out := recording{Sum: r.sum, Max: r.max}
	if r.histogram != nil {
		out.Histogram = r.histogram.Export()
	}
	return out
}

func (r recording) count() int64 {
	if r.Histogram == nil {
		return 0
	}
	return hdrhistogram.Import(r.Histogram).TotalCount()
}

// merge adds what another process has recorded.
func (r *recorder) merge(other recording) {
	if other.Histogram == nil {
		return
	}
	h := hdrhistogram.Import(other.Histogram)
	if r.histogram != nil {
		h.Merge(r.histogram)
	}
	r.histogram, r.sum, r.max = h, r.sum+other.Sum, max(r.max, other.Max)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
