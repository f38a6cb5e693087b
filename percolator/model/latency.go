package model

import "time"

// LatencyBounds are the upper bounds of the buckets of LatencyCounts but the last, which has none.
// Three to a decade tell apart what an operator would treat differently; finer ones would only make
// reports longer.
var LatencyBounds = [...]time.Duration{
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second,
	10 * time.Second, 20 * time.Second, 60 * time.Second,
}

// LatencyCounts is a histogram of durations since NewClient. Sub gives what happened between two
// readings.
type LatencyCounts struct {
	// By upper bound in LatencyBounds, then above.
	Buckets [len(LatencyBounds) + 1]int64 `json:"buckets"`
	Count   int64                         `json:"count"`
	Sum     time.Duration                 `json:"sum"` // nanoseconds in JSON
}

// Sub returns the counts since earlier was read from the same client.
func (l LatencyCounts) Sub(earlier LatencyCounts) LatencyCounts {
	for i := range l.Buckets {
		l.Buckets[i] -= earlier.Buckets[i]
	}
	l.Count -= earlier.Count
	l.Sum -= earlier.Sum
	return l
}

// Add returns the sum of the counts of two clients.
func (l LatencyCounts) Add(other LatencyCounts) LatencyCounts {
	for i := range l.Buckets {
		l.Buckets[i] += other.Buckets[i]
	}
	l.Count += other.Count
	l.Sum += other.Sum
	return l
}

// Quantile estimates the duration that a share q (0 to 1) of the calls did not exceed, as if the
// calls within a bucket were spread evenly. It gives what exceeds all bounds as the last of them.
// Without calls it is 0.
func (l LatencyCounts) Quantile(q float64) time.Duration {
	total := int64(0)
	for _, n := range l.Buckets {
		total += n
	}
	if total <= 0 {
		return 0
	}
	rank := min(max(q, 0), 1) * float64(total)
	below := 0.0
	lower := time.Duration(0)
	for i, n := range l.Buckets {
		if i == len(LatencyBounds) {
			break
		}
		if upper := LatencyBounds[i]; n > 0 && below+float64(n) >= rank {
			return lower + time.Duration(float64(upper-lower)*max(0, rank-below)/float64(n))
		}
		below += float64(n)
		lower = LatencyBounds[i]
	}
	return lower
}

// Mean is the average duration; 0 without calls.
func (l LatencyCounts) Mean() time.Duration {
	if l.Count <= 0 {
		return 0
	}
	return l.Sum / time.Duration(l.Count)
}
