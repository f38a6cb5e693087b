package observers_test

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
)

// BenchmarkPoison measures how long 1,000 healthy rows take alone, and beside rows that fail,
// panic, hang and conflict without end. "x" is the ratio; both are measured in turns, in one
// process. Of each kind there are as many rows as the name says.
//
//	go test -run '^$' -bench Poison ./observers
func BenchmarkPoison(b *testing.B) {
	for _, c := range []struct {
		name string
		each int
	}{{"10", 10}, {"50", 50}} {
		b.Run(c.name, func(b *testing.B) {
			var alone, beside time.Duration
			for b.Loop() {
				alone += healthyTime(b, 0)
				beside += healthyTime(b, c.each)
			}
			b.ReportMetric(beside.Seconds()/alone.Seconds(), "x")
			b.ReportMetric(alone.Seconds()*1000/float64(b.N), "ms-alone/op")
			b.ReportMetric(beside.Seconds()*1000/float64(b.N), "ms-beside/op")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// healthyTime is how long a worker takes from its start to the commit of the last of 1,000 healthy
// rows.
func healthyTime(b *testing.B, each int) time.Duration {
	e, r := newEnv(b, poisonTable()), observers.NewRegistry()
	const healthy = 1000
	p := &poison{other: e.NewClient(), j: newJournal()}
	r.Observe("o", "t", "in", p.observe)
	r.Observe("slow", "t", "slow", p.observe, observers.Timeout(time.Second))
	e.poisoned(healthy, each, poisons...)
	started := time.Now()
	w, stop := e.start(e.NewClient(), r, observers.Config{DrainTimeout: time.Millisecond, DisableCollection: true})
	e.until("all healthy rows have committed", func() bool { return w.Stats().Runs >= healthy })
	took := time.Since(started)
	stop()
	return took
}
