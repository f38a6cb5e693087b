package measure

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/fill"
	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// observersStore is the process with the store: an emulator of Bigtable and an oracle. It says
// where they listen, and lives until the input ends.
func observersStore(ctx context.Context, j journal, l *lines) error {
	e := newEnvironment(ctx, embeddedEmulator, hopSchema(1, j))
	e.serveOracle(ctx, tso.NewMemoryStore(), tso.ServerConfig{})
	return answer(l, e, func(struct{}) (addresses, error) { return e.at, nil })
}

// round is what the writer is asked for: to write each row at its moment, counted from when it is
// asked.
type round struct {
	Rows    []string
	Moments []time.Duration
}

// moments are commits by row; how a worker has heard of its work so far, and how many reads of the
// table it has sent.
type moments struct {
	Rows                 map[string]time.Time
	Hinted, Found, Reads int64
}

// observersWriter is the process with the writer: for each round that it hears it writes the rows
// at their moments, and says when they were committed.
func observersWriter(ctx context.Context, at addresses, l *lines) error {
	o := connectEnvironment(ctx, at).observed(ctx)
	return answer(l, o.environment, func(r round) (moments, error) {
		ctx, cancel := context.WithTimeout(ctx, gracePeriod)
		defer cancel()
		var group errgroup.Group
		started := time.Now()
		for i, row := range r.Rows {
			_ = sleepUntil(ctx, started.Add(r.Moments[i])) // if it is over, the write says so
			group.Go(func() error { return o.write(ctx, row) })
		}
		err := group.Wait()
		return moments{Rows: o.clock.take(hopColumn(0))}, err
	})
}

// observersSetting is how a worker's process is set up.
type observersSetting struct {
	At           addresses
	ScanInterval time.Duration
	ScanOnly     bool
}

// observersWorker is a process with a worker: whenever it is asked it says which rows it has run
// for, and when those runs were committed.
func observersWorker(ctx context.Context, s observersSetting, l *lines) error {
	var sent requestCounter
	o := connectEnvironment(ctx, s.At).observed(ctx, sent.option())
	cfg := observers.Config{ScanInterval: s.ScanInterval, DisableDispatch: s.ScanOnly}
	worker, _ := o.work(ctx, o.client, hopRegistry(1), cfg)
	return answer(l, o.environment, func(struct{}) (moments, error) {
		stats := worker.Stats()
		reads := sent.now().requests[kindReadRows]
		return moments{Rows: o.clock.take(hopColumn(1)), Hinted: stats.Hinted, Found: stats.Found, Reads: reads}, nil
	})
}

// acrossProcesses measures from a writer's process to workers' processes.
func (b *observersBenchmark) acrossProcesses(ctx context.Context, r *run) (err error) {
	e := new(environment)
	defer e.closeInto(&err)
	e.part(ctx, "observers-store", r.mode, &e.at)
	if e.err != nil {
		return e.err
	}
	pass, err := fillClean(ctx, e.at, b.Clean)
	if err != nil {
		return err
	}
	r.step()
	writer := e.part(ctx, "observers-writer", e.at, nil)
	var workers []*process
	for range b.Workers {
		setting := observersSetting{At: e.at, ScanInterval: b.ScanInterval, ScanOnly: b.ScanOnly}
		workers = append(workers, e.part(ctx, "observers-worker", setting, nil))
	}
	if e.err != nil {
		return e.err
	}
	random := rand.New(rand.NewPCG(3, 4))
	rows := random.Perm(b.Clean) // no row twice
	var latencies recorder
	var counts moments
	lost := 0
	t := r.Table(r.mode.named("across processes"))
	for i := range b.Rounds {
		former := counts
		pause(ctx, b.Idle)
		if counts, err = ask(workers); err != nil {
			return err
		}
		idle := counts.Reads - former.Reads
		one := round{}
		for range b.Dirty {
			one.Rows = append(one.Rows, rowName(rows[0]))
			one.Moments = append(one.Moments, time.Duration(random.Int64N(int64(b.Duration)/3+1)))
			rows = rows[1:]
		}
		slices.Sort(one.Moments)
		var took []time.Duration
		if took, counts, err = one.measure(ctx, writer, workers); err != nil {
			return err
		}
		lost += b.Dirty - len(took)
		told := t.Row(fmt.Sprintf("round %d", i+1))
		recorded(took).into(told)
		told.Add("reads of the table by workers before it", idle)
		latencies.merge(recorded(took))
		r.step()
	}
	latencies.into(t.Row("all"))
	counted := r.Table("dirty rows").Row(r.mode.named("all"))
	counted.Add("clean rows", b.Clean, "to look at all, ms", pass, "dirty rows of a round", b.Dirty, "workers", b.Workers,
		"heard of from the writer", counts.Hinted, "found by a scan first", counts.Found)
	counted.Add("lost", lost) // no worker ran for them: must be 0
	title := fmt.Sprintf("Observers in another process: %d clean rows, %d dirty", b.Clean, b.Dirty)
	r.Draw(r.mode.chart(latencyChart("observers-across-processes", title, &latencies, report.Mark{At: 50, Name: "goal for p99"})))
	return nil
}

// fillClean fills the table with clean rows, and measures how long it takes to look at all of them.
func fillClean(ctx context.Context, at addresses, clean int) (pass float64, err error) {
	o := connectEnvironment(ctx, at).observed(ctx)
	defer o.closeInto(&err)
	if o.err != nil {
		return 0, o.err
	}
	body := slices.Repeat([]byte{'x'}, 100)
	if err := fill.Items(ctx, o.client, clean, func(tx *percolator.Txn, i int) error {
		return tx.Set(benchCell(rowName(i), bodyColumn), body)
	}); err != nil {
		return 0, err
	}
	var passes []float64
	for range 3 {
		started := time.Now()
		for p, err := range admin.New(o.client).ScanPending(ctx, benchTable, percolator.All()) {
			if err != nil {
				return 0, err
			}
			return 0, fmt.Errorf("row %s is not clean", p.Row)
		}
		passes = append(passes, milliseconds(time.Since(started)))
	}
	return report.Median(passes), nil
}

// measure has the rows written, and asks the workers until each has been run for, and how they came
// to know of them.
func (r round) measure(ctx context.Context, writer *process, workers []*process) (latencies []time.Duration, counts moments, err error) {
	var written moments
	if err := writer.ask(r, &written); err != nil {
		return nil, counts, err
	}
	ran := map[string]time.Time{}
	for deadline := time.Now().Add(gracePeriod); len(latencies) < len(r.Rows) && time.Now().Before(deadline); {
		pause(ctx, 50*time.Millisecond)
		if counts, err = ask(workers); err != nil {
			return nil, counts, err
		}
		maps.Copy(ran, counts.Rows)
		latencies = nil
		for _, row := range r.Rows {
			if from, to := written.Rows[row], ran[row]; !from.IsZero() && !to.IsZero() {
				latencies = append(latencies, to.Sub(from))
			}
		}
	}
	return latencies, counts, nil
}

// ask asks all workers, and adds up what they say.
func ask(workers []*process) (sum moments, err error) {
	sum.Rows = map[string]time.Time{}
	for _, w := range workers {
		var m moments
		if err := w.ask(struct{}{}, &m); err != nil {
			return sum, err
		}
		maps.Copy(sum.Rows, m.Rows)
		sum.Hinted, sum.Found, sum.Reads = sum.Hinted+m.Hinted, sum.Found+m.Found, sum.Reads+m.Reads
	}
	return sum, nil
}
