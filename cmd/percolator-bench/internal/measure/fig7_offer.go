package measure

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/tso"
)

// fig7Loaders is how many loads are under way at once, at most. A document for which there is no
// loader when it is due waits, and has been waiting since it was due.
const fig7Loaders = 16

// offer loads the documents when they are due, whatever becomes of those before them, and waits for
// all. A loader takes one that is due, and with it others that have been waiting for a loader, most
// in all. Once stop is set, no further ones are loaded.
func (a fig7Arrivals) offer(ctx context.Context, begun time.Time, stop *atomic.Bool, most int,
	load func(ctx context.Context, numbers []int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	due := make(chan int, len(a.due))
	group.Go(func() error {
		defer close(due)
		for i, at := range a.due {
			if err := sleepUntil(ctx, begun.Add(at)); err != nil {
				return err
			}
			due <- a.number(i)
		}
		return nil
	})
	for range min(fig7Loaders, len(a.due)) {
		group.Go(func() error {
			for number := range due {
				if stop.Load() {
					continue
				}
				if err := load(ctx, append([]int{number}, waiting(due, most-1)...)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// waiting takes what is there, most at most.
func waiting(due <-chan int, most int) (numbers []int) {
	for len(numbers) < most {
		select {
		case number, ok := <-due:
			if !ok {
				return numbers
			}
			numbers = append(numbers, number)
		default:
			return numbers
		}
	}
	return numbers
}

// fig7Outcome is when the arrivals were clustered; the zero time for one that was not.
type fig7Outcome struct {
	arrivals  fig7Arrivals
	begun     time.Time
	clustered []time.Time // by arrival
}

// inTime is how many were clustered while documents arrived.
func (o fig7Outcome) inTime() (n int) {
	end := o.begun.Add(o.arrivals.duration)
	for _, at := range o.clustered {
		if !at.IsZero() && !at.After(end) {
			n++
		}
	}
	return n
}

// saturated tells whether more than a tenth was still waiting when the last one had arrived.
func (o fig7Outcome) saturated() bool { return 10*(len(o.clustered)-o.inTime()) > len(o.clustered) }

// behind tells whether documents that arrived in the second half waited more than twice as long as
// those of the first: then it is not only passes, which do not get much longer, that they wait for.
func (o fig7Outcome) behind() bool {
	var sum, n [2]float64
	for i, due := range o.arrivals.due {
		half := int(2 * due / o.arrivals.duration)
		sum[half] += o.clustered[i].Sub(o.begun.Add(due)).Seconds()
		n[half]++
	}
	return sum[1]*n[0] > 2*sum[0]*n[1] && n[0] > 0
}

// delivery says how long documents waited. One that was not clustered had waited until the end of
// the arrivals, at least.
func (o fig7Outcome) delivery() fig7Delivery {
	d := fig7Delivery{offered: len(o.clustered), inTime: o.inTime(), latency: new(recorder)}
	d.delivered = float64(d.inTime) / o.arrivals.duration.Seconds()
	for i, at := range o.clustered {
		if at.IsZero() {
			d.latency.record(o.arrivals.duration - o.arrivals.due[i])
		} else {
			d.latency.record(at.Sub(o.begun.Add(o.arrivals.due[i])))
			d.clustered++
		}
	}
	return d
}

// fig7Stored is what a store holds of a document.
type fig7Stored struct {
	row       string
	document  fig7Document
	clustered bool
	cluster   uint32
	at        tso.Timestamp // of the commit that named the cluster, where there are commits
}

// fig7Audit compares a store with the clustering in memory.
type fig7Audit struct {
	clusters    *fig7Clusters // as it should be, with what has arrived
	checked     int
	differences int
}

// audit takes the documents in the order in which they were clustered. Each has to have the keys
// that it was loaded with and the cluster that it gets after those before it; and those of the
// repository, and the arrivals of which must says so, have to be there.
func (s *fig7Store) audit(stored []fig7Stored, must func(number int) bool, a fig7Arrivals) *fig7Audit {
	out := &fig7Audit{clusters: s.base.clone()}
	seen := map[uint32]bool{}
	for _, st := range stored {
		d := st.document
		if st.row != fig7Row(d.number) || d != s.crawl.document(int(d.number)) || seen[d.number] {
			out.check(false)
			continue
		}
		if !st.clustered {
			out.check(!must(int(d.number)))
			continue
		}
		seen[d.number] = true
		want, old := s.base.of[d.number]
		if !old {
			want, _ = out.clusters.add(d)
		}
		out.check(st.cluster == want)
	}
	absent := func(from, to int) {
		for n := from; n < to; n++ {
			if must(n) && !seen[uint32(n)] {
				out.check(false)
			}
		}
	}
	absent(0, s.crawl.documents)
	absent(a.awake(), a.end())
	return out
}

func (a *fig7Audit) check(same bool) {
	a.checked++
	if !same {
		a.differences++
	}
}

// into puts the outcome into a report.
func (a *fig7Audit) into(d *fig7Delivery) {
	d.checked, d.differences, d.cluster = a.checked, a.differences, a.clusters.mean()
}
