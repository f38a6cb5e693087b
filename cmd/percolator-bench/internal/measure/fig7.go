package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/tso"
)

// fig7Benchmark measures the clustering of crawled documents (figure 7 of the paper). The latency
// of a document is from when it was to be loaded until its cluster was committed.
type fig7Benchmark struct {
	Documents int           // of the repository, already clustered when the crawl begins
	Rates     []float64     // documents that arrive a second, ascending
	Duration  time.Duration // how long documents arrive, at each rate and for each side
	Seed      uint64        // of keys and arrivals
	// scanInterval is the pause between two searches of the worker for notifications; 0: adaptive.
	// A search finds what direct dispatch has lost. In a locality group of its own (section 2.4) it
	// reads what is dirty; an emulator has none and passes over all rows and all cells.
	ScanInterval time.Duration
}

// fig7Offered is how many documents may arrive in one measurement. It bounds the memory of the
// benchmark and of the emulator.
const fig7Offered = 500_000

func (b *fig7Benchmark) check() error {
	n := slices.Max(b.Rates) * b.Duration.Seconds()
	return errors.Join(ascending("rates", b.Rates),
		unless(n <= fig7Offered, "--rates %v for --duration %v are more than %d documents", b.Rates, b.Duration, fig7Offered))
}

// fig7Rate is one crawl rate: both sides were offered the same documents at the same moments.
type fig7Rate struct {
	rate             float64 // documents a second
	observers, batch fig7Delivery
}

// fig7Delivery is what one side has: clustering by an observer of each document, or by passes over
// the whole repository, one after the other.
type fig7Delivery struct {
	offered, clustered int // documents; of these clustered in the end
	delivered          float64
	latency            *recorder
	requests           map[string]int64 // to Bigtable, by method
	fig7Audit

	// Of observers, saturated: when the last document had arrived, more than a tenth of all were
	// still waiting. Nothing more was done for them; they count in the latencies with the time that
	// they had waited by then, so what is reported is a lower bound, and grows with the duration.
	// Of batch passes: documents that arrived in the second half waited more than twice as long as
	// those of the first, so they would wait ever longer.
	saturated bool

	backlog int                     // documents not clustered when the last one had arrived
	worker  observers.ObserverStats // of the observer
	found   int64                   // notifications that direct dispatch had lost

	passes []float64 // how long each took, in milliseconds
	read   int       // documents in each, in the mean
}

// fig7GracePeriod bounds each step that no rate and no duration bounds: the end of a measurement,
// its verification, its removal.
const fig7GracePeriod = 5 * time.Minute

// run fills a repository and lets documents arrive at one rate after the other, for observers and
// for batch passes in turns. What arrived is removed after each measurement, so that all of them
// begin with the same repository.
func (b *fig7Benchmark) run(ctx context.Context, r *run) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(2*len(b.Rates))*(b.Duration+fig7GracePeriod)+time.Hour)
	defer cancel()
	r.all = 1 + 2*len(b.Rates)
	s, err := startFig7(ctx, b, r.emulator)
	if err != nil {
		return err
	}
	defer s.closeInto(&err)
	r.Emulator = s.emulator
	r.Title = fmt.Sprintf("from arrival of a document to commit of its cluster; %d documents with three keys of %d each, arrivals for %v",
		b.Documents, s.crawl.keys, b.Duration)
	repository := r.Table("repository").Row("before")
	repository.Add("documents", b.Documents, "documents in a cluster", s.base.mean(), "not alone, %", 100*s.base.notAlone())
	r.step()
	next := b.Documents
	var rates []fig7Rate
	for i, rate := range b.Rates {
		at := fig7Rate{rate: rate}
		a := s.crawl.arrivals(next, rate, b.Duration)
		next = a.end()
		sides := []func() error{
			func() (err error) { at.observers, err = s.measureObservers(ctx, a); return err },
			func() (err error) { at.batch, err = s.measureBatch(ctx, a); return err },
		}
		for j := range sides { // who begins alternates
			if err := sides[(i+j)%len(sides)](); err != nil {
				return fmt.Errorf("%v documents a second: %w", rate, err)
			}
			r.step()
		}
		if n := at.observers.differences + at.batch.differences; n > 0 {
			return fmt.Errorf("%v documents a second: %d cells are not what clustering in memory gives (observers %d, batch %d)", rate,
				n, at.observers.differences, at.batch.differences)
		}
		rates = append(rates, at)
		at.into(r, float64(len(a.due))/b.Duration.Seconds(), b.Documents)
	}
	b.conclude(r, rates)
	return nil
}

// into adds the figures of a rate.
func (at fig7Rate) into(r *run, arrived float64, documents int) {
	name := fmt.Sprintf("%.4g/s", at.rate)
	for _, side := range []struct {
		name string
		of   fig7Delivery
		mark string
	}{{"observers", at.observers, "≥ "}, {"batch", at.batch, "↗ "}} {
		row := r.Table(side.name).Row(name)
		row.Add("arrivals, 1/s", arrived, "of the repository, %/hour", percentPerHour(arrived, documents))
		if side.of.saturated {
			row.Add("saturated", side.mark)
		}
		side.of.latency.into(row)
		row.Add("delivered, 1/s", side.of.delivered, "clustered", side.of.clustered)
		work := r.Table(side.name + ", work").Row(name)
		work.Add("requests", sumOf(side.of.requests))
		for _, kind := range []string{"ReadRows", "CheckAndMutateRow", "MutateRows"} {
			work.Add(kind, side.of.requests[kind])
		}
		work.Add("documents in a cluster", side.of.clusters.mean(), "checked", side.of.checked, "differences", side.of.differences)
	}
	o, b := r.Table("observers, work").Row(name), r.Table("batch, work").Row(name)
	o.Add("left", at.observers.offered-at.observers.clustered, "backlog", at.observers.backlog, "runs", at.observers.worker.Runs,
		"conflicts", at.observers.worker.Conflicts, "found by the scan", at.observers.found)
	b.Add("passes", len(at.batch.passes), "pass, ms", at.batch.passes, "read each", at.batch.read)
}

// conclude tells where observers are saturated and where the crossover is, and draws median
// latencies against the crawl rate. From the last rate that observers kept up with, a line of its
// own leads to those that they did not: as they only grow with time, it shows where things go and
// not how far.
func (b *fig7Benchmark) conclude(r *run, rates []fig7Rate) {
	r.Notes = append(r.Notes, "≥: observers are saturated; documents left count with the time they had waited at the end of the arrivals",
		"↗: batch passes are saturated; documents of the second half waited more than twice as long")
	checked := 0
	first := len(rates) // at which observers are saturated
	for i, at := range rates {
		checked += at.observers.checked + at.batch.checked
		if at.observers.saturated && first > i {
			first = i
			r.Notes = append(r.Notes, fmt.Sprintf("observers are saturated at %.4g/s: they clustered %.0f/s (%.0f %% of the repository an hour)",
				at.rate, at.observers.delivered, percentPerHour(at.observers.delivered, b.Documents)))
		}
	}
	c := crossoverOf(rates, b.Documents)
	switch {
	case c == nil:
		r.Notes = append(r.Notes, "crossover: none in range, observers have the lower median at all rates")
	default:
		why := "the median of batch passes is lower"
		if c.saturation {
			why = "observers are saturated and batch passes are not"
		}
		r.Notes = append(r.Notes, fmt.Sprintf("crossover at %.0f/s (%.0f %% of the repository an hour): at %.4g/s, %s",
			c.rate, c.percent, c.first, why))
	}
	r.Notes = append(r.Notes, fmt.Sprintf("%d cells compared with the same clustering in memory: 0 differences", checked))
	lines := []report.Line{{Name: "observers", Points: true}, {Name: "batch passes", Points: true},
		{Name: "observers, saturated: at least", Points: true}}
	add := func(l *report.Line, at fig7Rate, of *recorder) {
		l.X, l.Y = append(l.X, percentPerHour(at.rate, b.Documents)), append(l.Y, of.ms(50)/1000)
	}
	for i, at := range rates {
		add(&lines[1], at, at.batch.latency)
		if !at.observers.saturated {
			add(&lines[0], at, at.observers.latency)
		}
		if at.observers.saturated || i+1 < len(rates) && rates[i+1].observers.saturated {
			add(&lines[2], at, at.observers.latency)
		}
	}
	chart := report.Chart{
		Name: "fig7", Title: fmt.Sprintf("Clustering %d documents, and what is crawled", b.Documents), Lines: lines,
		X: report.Axis{Label: "crawl rate, % of the repository an hour", Log: true}, Y: report.Axis{Label: "median latency, s", Log: true},
	}
	if c != nil {
		chart.Marks = []report.Mark{{At: c.percent, Name: "crossover"}}
	}
	r.Draw(chart)
}

func percentPerHour(perSecond float64, documents int) float64 {
	return 100 * perSecond * time.Hour.Seconds() / float64(documents)
}

// fig7Crossover is where repeated batch passes begin to cluster sooner than observers.
type fig7Crossover struct {
	// first is the first rate, of those measured, at which the median latency of batch passes is
	// lower, or saturation holds.
	first float64
	// rate is where the medians are equal, between first and the rate before it, if the logarithms
	// of both go straight from one to the other. Without a rate before it: first.
	rate, percent float64
	// saturation: at first observers are saturated and batch passes are not, but the time of the
	// measurement was too short for the medians to cross. rate is then what the observers clustered
	// there, or the rate before if that is higher.
	saturation bool
}

// crossoverOf finds it among rates that ascend; nil if observers are faster at all of them.
func crossoverOf(rates []fig7Rate, documents int) *fig7Crossover {
	// slower is above 0 where batch passes are faster.
	slower := func(r fig7Rate) float64 { return math.Log(r.observers.latency.ms(50) / r.batch.latency.ms(50)) }
	for i, r := range rates {
		after, c := slower(r), fig7Crossover{first: r.rate, rate: r.rate}
		switch {
		case after > 0 && i > 0:
			before := slower(rates[i-1])
			c.rate = rates[i-1].rate * math.Pow(r.rate/rates[i-1].rate, before/(before-after))
		case after > 0:
		case r.observers.saturated && !r.batch.saturated:
			c.saturation, c.rate = true, r.observers.delivered
			if i > 0 {
				c.rate = max(c.rate, rates[i-1].rate)
			}
		default:
			continue
		}
		c.percent = percentPerHour(c.rate, documents)
		return &c
	}
	return nil
}

// fig7Loaders is how many loads are under way at once, at most. A document for which there is no
// loader when it is due waits, and has been waiting since it was due.
const fig7Loaders = 16

// offer loads the documents when they are due, whatever becomes of those before them, and waits for
// all. A loader takes one that is due, and with it others that have been waiting for a loader, most
// in all. Once stop is set, no further ones are loaded.
func (a fig7Arrivals) offer(ctx context.Context, started time.Time, stop *atomic.Bool, most int,
	load func(ctx context.Context, numbers []int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	// The loader that has the turn waits for the next document.
	next, turn := 0, make(chan struct{}, 1)
	take := func() (numbers []int, err error) {
		turn <- struct{}{}
		defer func() { <-turn }()
		if next == len(a.due) || stop.Load() {
			return nil, nil
		}
		err = sleepUntil(ctx, started.Add(a.due[next]))
		for now := time.Since(started); len(numbers) == 0 || len(numbers) < most && next < len(a.due) && a.due[next] <= now; next++ {
			numbers = append(numbers, a.number(next))
		}
		return numbers, err
	}
	for range fig7Loaders {
		group.Go(func() error {
			for {
				numbers, err := take()
				if err == nil && len(numbers) > 0 {
					err = load(ctx, numbers)
				}
				if err != nil || len(numbers) == 0 {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// fig7Outcome is when the arrivals were clustered; the zero time for one that was not.
type fig7Outcome struct {
	arrivals  fig7Arrivals
	started   time.Time
	clustered []time.Time // by arrival
}

// inTime is how many were clustered while documents arrived.
func (o fig7Outcome) inTime() (n int) {
	end := o.started.Add(o.arrivals.duration)
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
		sum[half] += o.clustered[i].Sub(o.started.Add(due)).Seconds()
		n[half]++
	}
	return sum[1]*n[0] > 2*sum[0]*n[1] && n[0] > 0
}

// delivery says how long documents waited. One that was not clustered had waited until the end of
// the arrivals, at least.
func (o fig7Outcome) delivery() fig7Delivery {
	d := fig7Delivery{offered: len(o.clustered), latency: new(recorder)}
	d.delivered = float64(o.inTime()) / o.arrivals.duration.Seconds()
	for i, at := range o.clustered {
		if at.IsZero() {
			d.latency.record(o.arrivals.duration - o.arrivals.due[i])
		} else {
			d.latency.record(at.Sub(o.started.Add(o.arrivals.due[i])))
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
	clusters             *fig7Clusters // as it should be, with what has arrived
	checked, differences int           // cells that were compared, and those that differ: must be 0
}

// audit takes the documents in the order in which they were clustered. Each has to have the keys
// that it was loaded with and the cluster that it gets after those before it; and those of the
// repository, and the arrivals of which must says so, have to be there.
func (s *fig7Store) audit(stored []fig7Stored, must func(number int) bool, a fig7Arrivals) fig7Audit {
	out := fig7Audit{clusters: s.base.clone()}
	seen := map[uint32]bool{}
	for _, st := range stored {
		d := st.document
		if st.row != fig7Row(d.Number) || d != s.crawl.document(int(d.Number)) || seen[d.Number] {
			out.check(false)
			continue
		}
		if !st.clustered {
			out.check(!must(int(d.Number)))
			continue
		}
		seen[d.Number] = true
		want, old := s.base.of[d.Number]
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
