package measure

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// observersBenchmark measures the reaction of observers. Latencies are from when the commit of an
// observed write was durable to when the commit of its observer was, both as their clients were
// told by the store.
type observersBenchmark struct {
	Duration time.Duration // of offered writes; saturated rates are measured for a quarter of it
	Writers  []int         // for each saturated rate; each waits for its write's observer
	Hops     int           // of the chain
	Chains   float64       // started each second, at random moments

	Clean, Dirty int // clean rows of the shared table; rows notified in each round. 0: not measured
	Rounds       int
	Workers      int           // processes
	Idle         time.Duration // before each round, so that the workers have slowed down
	ScanInterval time.Duration // of those workers; 0: as they like
	ScanOnly     bool          // those workers hear nothing from the writer
}

func (b *observersBenchmark) check() error {
	return unless(b.Clean == 0 || b.Dirty*b.Rounds <= b.Clean,
		"--clean %d are fewer than --dirty %d in --rounds %d", b.Clean, b.Dirty, b.Rounds)
}

// run leaves to chains without direct dispatch what finds work then: scans or, where there is a
// journal, looks at the rows of its entries.
func (b *observersBenchmark) run(ctx context.Context, r *run) error {
	r.Title = "from commit of a write to commit of its observer"
	r.all = len(b.Writers) + 1 + 2
	if b.Clean > 0 {
		r.all += 1 + b.Rounds
	}
	without := "looks only"
	if r.mode.off() {
		without = "scan only"
	}
	if err := b.inProcess(ctx, r); err != nil {
		return fmt.Errorf("in one process: %w", err)
	}
	chart := report.Chart{Name: "observers-chain", Title: "A chain of observers in one worker", X: report.Axis{Label: "hop"},
		Y: report.Axis{Label: "sum of the hops' medians, ms", Log: true}}
	for _, way := range []struct {
		name   string
		worker observers.Config
	}{{"direct dispatch", observers.Config{}}, {without, observers.Config{DisableDispatch: true}}} {
		hops, whole, _, err := chains(ctx, b.Hops, r.mode, way.worker, b.Chains, b.Duration/2)
		if err != nil {
			return fmt.Errorf("chain: %w", err)
		}
		t := r.Table(r.mode.named("chain, " + way.name))
		for h := range hops {
			hops[h].into(t.Row(fmt.Sprintf("hop %d", h+1)))
		}
		whole.into(t.Row("whole"))
		line := report.Line{Name: way.name, Points: true}
		sum := 0.
		for i, row := range t.Rows[:b.Hops] {
			sum += row.Value("p50")
			line.X, line.Y = append(line.X, float64(i+1)), append(line.Y, sum)
		}
		chart.Lines = append(chart.Lines, line)
		r.step()
	}
	r.Draw(r.mode.chart(chart))
	if b.Clean == 0 {
		return nil
	}
	return b.acrossProcesses(ctx, r)
}

// latencyChart shows a distribution with the goals for it.
func latencyChart(name, title string, l *recorder, goals ...report.Mark) report.Chart {
	return report.Chart{Name: name, Title: title, Marks: goals, Lines: []report.Line{l.line("")},
		X: report.Axis{Label: "from commit of a write to commit of its observer, ms", Log: true},
		Y: report.Axis{Label: "share of all, %", Max: 100}}
}

// hopColumn is "0" for what the benchmark writes; the observer of a hop writes the next number, and
// the last of a chain is not observed. Everything is in one row, so that each run has one commit
// request.
func hopColumn(i int) string { return strconv.Itoa(i) }

func hopSchema(hops int, j journal) *percolator.Schema {
	t := percolator.Table{Name: benchTable}
	for i := range hops {
		t.Observed = append(t.Observed, hopColumn(i))
	}
	return &percolator.Schema{Tables: []percolator.Table{t}, DisableJournal: j.off()}
}

// hopRegistry has an observer for each hop, which copies what it was called for to the next column.
func hopRegistry(hops int) *observers.Registry {
	r := observers.NewRegistry()
	for i := range hops {
		r.Observe("hop-"+hopColumn(i), benchTable, hopColumn(i), func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
			return tx.Set(benchCell(ch.Cell.Row, hopColumn(i+1)), ch.Value)
		})
	}
	return r
}

// observed is an environment with a client whose commits a clock sees.
type observed struct {
	*environment
	client *percolator.Client
	clock  *commitClock
}

func (e *environment) observed(ctx context.Context, opts ...option.ClientOption) *observed {
	o := &observed{environment: e, clock: newCommitClock()}
	o.client = e.client(ctx, percolator.Config{}, append(opts, o.clock.option())...)
	return o
}

// startObserved starts all of it in this process, and a worker.
func startObserved(ctx context.Context, hops int, j journal, cfg observers.Config) (*observed, error) {
	o := startEnvironment(ctx, embeddedEmulator, hopSchema(hops, j)).observed(ctx)
	o.work(ctx, o.client, hopRegistry(hops), cfg)
	return o, o.orClose()
}

// write commits a write of column "0" that notifies.
func (o *observed) write(ctx context.Context, row string) error {
	_, err := o.client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		return tx.Set(benchCell(row, hopColumn(0)), []byte("a value of some twenty bytes"))
	}, percolator.Blind())
	return err
}

// longestSaturation bounds how long runs are counted until there is one.
const longestSaturation = 10 * time.Second

// inProcess finds the saturated rate and offers half of it.
func (b *observersBenchmark) inProcess(ctx context.Context, r *run) error {
	most := 0.0
	for _, writers := range b.Writers {
		rate, err := 0.0, error(nil)
		for d := b.Duration / 4; rate == 0 && err == nil; d *= 2 { // a busy machine may have no time for any run
			rate, err = saturate(ctx, r.mode, writers, d)
			if err == nil && rate == 0 && d > longestSaturation {
				err = fmt.Errorf("no run was counted in %v", d)
			}
		}
		if err != nil {
			return fmt.Errorf("%d writers: %w", writers, err)
		}
		r.Table("saturated").Row(r.mode.named(fmt.Sprintf("%d writers", writers))).Add("writes and runs, 1/s", rate)
		most = max(most, rate)
		r.step()
	}
	_, latencies, inTime, err := chains(ctx, 1, r.mode, observers.Config{}, most/2, b.Duration)
	if err != nil {
		return err
	}
	observed := r.Table("in one process").Row(r.mode.named("observed"))
	observed.Add("offered, 1/s", most/2, "delivered, 1/s", float64(inTime)/b.Duration.Seconds())
	latencies.into(observed)
	title := fmt.Sprintf("Observers in one process at half the saturated rate (%.0f/s)", most/2)
	r.Draw(r.mode.chart(latencyChart("observers-in-process", title, latencies,
		report.Mark{At: 5, Name: "goal for the median"}, report.Mark{At: 10, Name: "goal for p99"})))
	r.step()
	return nil
}

// saturate lets writers write, each of them again as soon as the observer of its last write has
// committed, so that writes and runs go at one rate: left alone, writers would outrun the worker.
// The first third of the time is not counted.
func saturate(ctx context.Context, j journal, writers int, d time.Duration) (perSecond float64, err error) {
	o, err := startObserved(ctx, 1, j, observers.Config{})
	if err != nil {
		return 0, err
	}
	defer o.closeInto(&err)
	var rows, runs atomic.Int64
	started := time.Now()
	counted, end := started.Add(d/3), started.Add(d)
	ctx, cancel := context.WithDeadline(ctx, end.Add(gracePeriod))
	defer cancel()
	if err := (generator{callers: writers, more: during(d)}).run(ctx, func(ctx context.Context, _ int, _ time.Time) error {
		row := rowName(int(rows.Add(1)))
		if err := o.write(ctx, row); err != nil {
			return err
		}
		at, err := o.clock.await(ctx, row, hopColumn(1))
		if err != nil {
			return fmt.Errorf("the observer of row %s: %w", row, err)
		}
		if at.After(counted) && !at.After(end) {
			runs.Add(1)
		}
		return nil
	}); err != nil {
		return 0, err
	}
	return float64(runs.Load()) / end.Sub(counted).Seconds(), nil
}

// chains begins chains of observers at random moments for d, and measures each hop and the whole.
// inTime is how many were started within d.
func chains(ctx context.Context, length int, j journal, cfg observers.Config, rate float64, d time.Duration,
) (hops []recorder, whole *recorder, inTime int, err error) {
	o, err := startObserved(ctx, length, j, cfg)
	if err != nil {
		return nil, nil, 0, err
	}
	defer o.closeInto(&err)
	ctx, cancel := context.WithTimeout(ctx, 2*d+gracePeriod)
	defer cancel()
	started := time.Now()
	n, _, err := generator{rate: rate, random: true, more: during(d)}.arrive(ctx, func(ctx context.Context, i int) error {
		return o.write(ctx, rowName(i))
	})
	hops, whole = make([]recorder, length), new(recorder)
	for i := 0; i < n && err == nil; i++ {
		first := o.clock.committed(rowName(i), hopColumn(0))
		if first.Sub(started) <= d {
			inTime++
		}
		last := first
		for h := range hops {
			at, err := o.clock.await(ctx, rowName(i), hopColumn(h+1))
			if err != nil {
				return nil, nil, 0, fmt.Errorf("hop %d of chain %d of %d: %w", h+1, i, n, err)
			}
			hops[h].record(at.Sub(last))
			last = at
		}
		whole.record(last.Sub(first))
	}
	return hops, whole, inTime, err
}
