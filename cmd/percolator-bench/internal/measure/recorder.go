package measure

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
)

// recorder records latencies from many goroutines. Quantiles have three digits; mean and maximum
// are exact. One that is not positive counts as the shortest.
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
	row.Add("n", r.count())
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}, {"max", 100}} {
		row.Add(q.name+", ms", r.ms(q.at))
	}
	row.Add("mean, ms", r.mean())
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

// MarshalJSON implements json.Marshaler.
func (r *recorder) MarshalJSON() ([]byte, error) {
	out := recording{Sum: r.sum, Max: r.max}
	if r.histogram != nil {
		out.Histogram = r.histogram.Export()
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *recorder) UnmarshalJSON(text []byte) error {
	var in recording
	err := json.Unmarshal(text, &in)
	if r.sum, r.max = in.Sum, in.Max; in.Histogram != nil {
		r.histogram = hdrhistogram.Import(in.Histogram)
	}
	return err
}

// merge adds what another one has recorded, which is not used any more.
func (r *recorder) merge(other *recorder) {
	if r.histogram == nil {
		r.histogram = other.histogram
	} else if other.histogram != nil {
		r.histogram.Merge(other.histogram)
	}
	r.sum, r.max = r.sum+other.sum, max(r.max, other.max)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
