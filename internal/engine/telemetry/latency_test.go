package telemetry

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
)

func TestLatencyCounts(t *testing.T) {
	t.Parallel()
	var l latency
	for _, d := range []time.Duration{0, 100 * time.Microsecond, 101 * time.Microsecond, time.Millisecond, time.Minute, time.Hour} {
		l.Add(d)
	}
	got := l.read()
	want := model.LatencyCounts{Count: 6, Sum: time.Hour + time.Minute + time.Millisecond + 201*time.Microsecond}
	want.Buckets[0], want.Buckets[1], want.Buckets[3] = 2, 1, 1
	want.Buckets[len(want.Buckets)-2], want.Buckets[len(want.Buckets)-1] = 1, 1
	if got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	before := got
	l.Add(3 * time.Millisecond)
	period := l.read().Sub(before)
	if period.Count != 1 || period.Sum != 3*time.Millisecond || period.Buckets[5] != 1 {
		t.Errorf("the period is %+v", period)
	}
	if sum := before.Add(period); sum != l.read() {
		t.Errorf("the sum is %+v", sum)
	}
	if bounds := model.LatencyBounds[:]; !slices.IsSorted(bounds) || len(bounds) != len(got.Buckets)-1 {
		t.Errorf("bounds %v", bounds)
	}
}

// A quantile lies in the bucket of the true one.
func TestLatencyQuantile(t *testing.T) {
	t.Parallel()
	if (model.LatencyCounts{}).Quantile(0.5) != 0 || (model.LatencyCounts{}).Mean() != 0 {
		t.Error("nothing was counted")
	}
	random := rand.New(rand.NewPCG(1, 2))
	var l latency
	var all []time.Duration
	for range 2000 {
		d := time.Duration(random.ExpFloat64() * float64(20*time.Millisecond))
		l.Add(d)
		all = append(all, d)
	}
	slices.Sort(all)
	bucket := func(d time.Duration) int { i, _ := slices.BinarySearch(model.LatencyBounds[:], d); return i }
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
		exact := all[max(0, int(q*float64(len(all)))-1)]
		if got := l.read().Quantile(q); bucket(got) != bucket(exact) {
			t.Errorf("quantile %v is %v, exactly %v", q, got, exact)
		}
	}
	var above latency
	above.Add(time.Hour)
	if got := above.read().Quantile(0.5); got != time.Minute {
		t.Errorf("above all bounds: %v", got)
	}
}
