package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// StoreAddresses is where the process with the store listens.
type StoreAddresses struct {
	Bigtable string `json:"bigtable"`
	Oracle   string `json:"oracle"`
}

func (a StoreAddresses) arguments() []string {
	return []string{"--bigtable", a.Bigtable, "--tso", a.Oracle}
}

// open connects to the store of another process.
func (a StoreAddresses) open(ctx context.Context) (*percolator.Client, *commitClock, func() error, error) {
	oracle, err := tso.Dial(ctx, a.Oracle)
	if err != nil {
		return nil, nil, nil, err
	}
	client, clock, err := openClient(ctx, oracle, emulator.Connect(a.Bigtable))
	if err != nil {
		return nil, nil, nil, errors.Join(err, oracle.Close())
	}
	return client, clock, func() error { return errors.Join(client.Close(), oracle.Close()) }, nil
}

// round is what the writer is asked for: to write each row at its moment, counted from when it is asked.
type round struct {
	Rows    []string        `json:"rows"`
	Moments []time.Duration `json:"moments"`
}

// question asks a worker for which rows it has run so far.
type question struct{}

// moments are commits by row, in nanoseconds since 1970, and how a worker has heard of its work so far.
type moments struct {
	Rows   map[string]int64 `json:"rows"`
	Hinted int64            `json:"hinted,omitempty"`
	Found  int64            `json:"found,omitempty"`
	Error  string           `json:"error,omitempty"`
}

// measureProcesses measures from a writer's process to workers' processes.
func measureProcesses(ctx context.Context, cfg ObserversConfig, step func()) (out *Processes, err error) {
	c, err := startChild(ctx, cfg.Self, nil, "store")
	if err != nil {
		return nil, err
	}
	defer func() { err = firstOf(err, c.stop()) }()
	var at StoreAddresses
	if err := c.hear(&at); err != nil {
		return nil, err
	}
	out = &Processes{Clean: cfg.Clean, Dirty: cfg.Dirty, Workers: cfg.Workers}
	if out.Pass, err = prepare(ctx, at, cfg.Clean); err != nil {
		return nil, err
	}
	step()

	writer, err := startChild(ctx, cfg.Self, nil, append([]string{"writer"}, at.arguments()...)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstOf(err, writer.stop()) }()
	workers := new(loads)
	defer func() { err = firstOf(err, workers.stop()) }()
	for range cfg.Workers {
		w, err := startChild(ctx, cfg.Self, nil, append([]string{"worker", "--scan-interval", cfg.ScanInterval.String(),
			"--scan-only=" + strconv.FormatBool(cfg.ScanOnly)}, at.arguments()...)...)
		if err != nil {
			return nil, err
		}
		workers.children = append(workers.children, w)
	}

	random := rand.New(rand.NewPCG(3, 4))
	rows := random.Perm(cfg.Clean) // no row twice
	var all []time.Duration
	for range cfg.Rounds {
		if err := pause(ctx, cfg.Idle); err != nil {
			return nil, err
		}
		r := round{}
		for range cfg.Dirty {
			r.Rows = append(r.Rows, rowName(rows[0]))
			r.Moments = append(r.Moments, time.Duration(random.Int64N(int64(cfg.Duration)/3+1)))
			rows = rows[1:]
		}
		slices.Sort(r.Moments)
		latencies, err := r.measure(ctx, writer, workers, out)
		if err != nil {
			return nil, err
		}
		out.Lost += cfg.Dirty - len(latencies)
		out.Rounds = append(out.Rounds, spreadOf(latencies))
		all = append(all, latencies...)
		step()
	}
	out.Latency = spreadOf(all)
	return out, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// prepare creates the tables, fills one with clean rows, and measures how long it takes to look at all of them.
func prepare(ctx context.Context, at StoreAddresses, clean int) (pass float64, err error) {
	if err := percolator.CreateSchema(ctx, benchInstance, benchInstance, benchSchema(1), emulator.Connect(at.Bigtable)...); err != nil {
		return 0, err
	}
	client, _, closeAll, err := at.open(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = firstOf(err, closeAll()) }()
	const batch = 500 // rows in a transaction
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for from := 0; from < clean; from += batch {
		group.Go(func() error {
			_, err := client.Update(gctx, func(_ context.Context, tx *percolator.Txn) error {
				for i := from; i < min(from+batch, clean); i++ {
					if err := tx.Set(benchCell(rowName(i), bodyColumn), slices.Repeat([]byte{'x'}, 100)); err != nil {
						return err
					}
				}
				return nil
			}, percolator.Blind())
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	if err := client.Flush(ctx); err != nil {
		return 0, err
	}
	var passes []float64
	for range 3 {
		begun := time.Now()
		for p, err := range admin.New(client).ScanPending(ctx, benchTable, percolator.All()) {
			if err != nil {
				return 0, err
			}
			return 0, fmt.Errorf("row %s is not clean", p.Row)
		}
		passes = append(passes, float64(time.Since(begun))/float64(time.Millisecond))
	}
	return summarize(passes).Median, nil
}

// measure has the rows written, and asks the workers until each has been run for, and how they came to know of them.
func (r round) measure(ctx context.Context, writer *child, workers *loads, counts *Processes) ([]time.Duration, error) {
	if err := writer.tell(r); err != nil {
		return nil, err
	}
	var written moments
	if err := writer.hear(&written); err != nil {
		return nil, err
	}
	if written.Error != "" {
		return nil, errors.New(written.Error)
	}
	ran := map[string]int64{}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		counts.Hinted, counts.Found = 0, 0
		for _, w := range workers.children {
			var m moments
			if err := errors.Join(w.tell(question{}), w.hear(&m)); err != nil {
				return nil, err
			}
			maps.Copy(ran, m.Rows)
			counts.Hinted += m.Hinted
			counts.Found += m.Found
		}
		if latencies := r.latencies(written.Rows, ran); len(latencies) == len(r.Rows) {
			return latencies, nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return r.latencies(written.Rows, ran), nil
}

func (r round) latencies(written, ran map[string]int64) []time.Duration {
	var out []time.Duration
	for _, row := range r.Rows {
		from, to := written[row], ran[row]
		if from != 0 && to != 0 {
			out = append(out, time.Duration(to-from))
		}
	}
	return out
}

// answer does f for each line of JSON that it reads, and writes what f returns, until the input ends.
func answer[Q, A any](in io.Reader, out io.Writer, f func(Q) A) error {
	answers := json.NewEncoder(out)
	for questions := json.NewDecoder(in); ; {
		var q Q
		if err := questions.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := answers.Encode(f(q)); err != nil {
			return err
		}
	}
}
