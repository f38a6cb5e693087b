package measure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// latencyBenchmark measures transactions in multiples of the time of one raw request under the same
// delay.
type latencyBenchmark struct {
	// delay is added to each request to the store and to each request for a timestamp. It should be
	// long compared with what the emulator needs, or the processor is measured and not how many
	// requests follow each other.
	delay      time.Duration
	iterations int // transactions of each kind in a repetition
}

func (b *latencyBenchmark) declare(f *flags) {
	number(f, &b.delay, "delay", 5*time.Millisecond, 5*time.Millisecond, 0, time.Second, "added to each request")
	number(f, &b.iterations, "iterations", 100, 10, 1, 100_000, "transactions of each kind in a repetition")
}

const (
	// latencyTurn is how many transactions follow each other before it is the raw requests' turn. A
	// blind transaction takes a timestamp that was fetched during those before it, so there have to be
	// some.
	latencyTurn = 10
	// countedTransactions is of how many transactions of each kind the requests are counted.
	countedTransactions = 10
)

// run gives up when it takes ten times as long as its requests one after the other.
func (b *latencyBenchmark) run(ctx context.Context, r *run) (err error) {
	const requests = 60 // of all kinds of transactions, one each, with the raw requests beside them
	each := requests * (b.delay + time.Millisecond)
	ctx, cancel := context.WithTimeout(ctx, gracePeriod+10*each*time.Duration(r.repeat*b.iterations+1+countedTransactions))
	defer cancel()
	f, err := startLatency(ctx, b.delay, r.emulator)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	r.Emulator = f.emulator
	r.Title = fmt.Sprintf("transactions in request times, %.1f ms added to each request, %d × %d of each kind", milliseconds(b.delay), r.repeat, b.iterations)
	works := f.works()
	r.all = len(works) * (r.repeat + 1)
	for _, w := range works {
		if err := f.count(ctx, w); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		r.step()
	}
	for range r.repeat {
		for _, w := range works {
			if err := f.time(ctx, b.iterations, w); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			r.step()
		}
	}
	r.Table("raw").Row("ReadRow").Add("time, ms", f.reads)
	r.Table("raw").Row("MutateRow").Add("time, ms", f.mutates)
	bars := []report.Bars{{Name: "measured"}, {Name: "goal (at most)"}}
	for _, w := range works {
		w.into(r, r.repeat*b.iterations)
		bars[0].Values, bars[1].Values = append(bars[0].Values, report.Median(w.multiples)), append(bars[1].Values, w.goal)
	}
	r.Draw(report.Chart{Name: "latency", Title: fmt.Sprintf("Transactions with %.0f ms added to each request", milliseconds(b.delay)),
		Y: report.Axis{Label: "times one raw request"}, Bars: bars,
		Categories: []string{"get", "set", "set, blind", "get, set 2", "set 10", "set 10, blind", "past a lock"}})
	verified, err := f.verify(ctx, works)
	r.Notes = append(r.Notes, fmt.Sprintf("%d cells read back", verified))
	return err
}

// into adds what was measured of a kind of transaction, in n transactions.
func (w *latencyWork) into(r *run, n int) {
	times := r.Table("request times").Row(w.name)
	times.Add("multiple", w.multiples)
	if w.goal > 0 {
		times.Want(report.Goal{Wanted: w.goal, Peer: w.peer})
	}
	times.Add("time, ms", w.means)
	if w.blind { // how often the start timestamp had been fetched in time, and how many were fetched ahead for later ones
		times.Add("start timestamp at hand, %", 100*float64(w.atHand)/float64(n),
			"fetched ahead", float64(w.ahead)/float64(n))
	}
	requests := r.Table("requests").Row(w.name)
	for _, kind := range []string{"ReadRows", "CheckAndMutateRow", "MutateRows", "storage", "Oracle"} {
		requests.Add(kind, w.requests[kind])
		if kind == "storage" && w.storageGoal > 0 { // what is wanted holds for the most
			f := &requests.Figures[len(requests.Figures)-1]
			f.Value = f.Spread.Max
			requests.Want(report.Goal{Wanted: float64(w.storageGoal), Peer: w.storagePeer})
		}
	}
}

// The table of several benchmarks.
const (
	benchTable = "t"
	bodyColumn = "body"
)

func benchCell(row, column string) percolator.Cell {
	return percolator.Cell{Table: benchTable, Row: row, Column: column}
}

// Rows that are there before anything is measured.
const (
	knownRow = "known"
	rawRow   = "raw" // of the raw requests; one cell, which our clients do not see, as it has no record
)

// rawFamily is that of our data (docs/PROTOCOL.md, "Cells"), so that both sides read and write the
// same table.
const rawFamily = "data"

// latencyField is an environment with everybody who takes part. The oracle is reached over gRPC
// like the store, so that a timestamp is no cheaper than another request.
type latencyField struct {
	*environment
	oracle *distantClient
	client *percolator.Client // the one that is measured: everything is far away
	dying  *percolator.Client // leaves locks behind; nothing is far away
	raw    *bigtable.Table    // as far away
	sent   requestCounter     // by client

	reads, mutates []float64 // means of raw requests, in milliseconds, an entry for each repetition of each kind of transaction
}

func startLatency(ctx context.Context, delay time.Duration, emulator string) (f *latencyField, err error) {
	f = new(latencyField)
	if f.environment, err = newEnvironment(ctx, emulator, &percolator.Schema{Tables: []percolator.Table{{Name: benchTable}}}); err != nil {
		return nil, err
	}
	_, err = f.orClose(f.connect(ctx, delay))
	return f, err
}

func (f *latencyField) connect(ctx context.Context, delay time.Duration) error {
	server, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
	if err != nil {
		return err
	}
	if f.at.Oracle, err = f.serve(ctx, server); err != nil {
		return err
	}
	near, err := f.dial(ctx, f.at.Oracle)
	if err != nil {
		return err
	}
	f.oracle = &distantClient{near, distance{delay: delay}}
	if f.client, err = f.environment.client(ctx, percolator.Config{Oracle: f.oracle}, append(delayed(delay), f.sent.option())...); err != nil {
		return err
	}
	if f.dying, err = f.environment.client(ctx, percolator.Config{Oracle: near}, losePhaseTwo()...); err != nil {
		return err
	}
	bt, err := f.environment.raw(ctx, delayed(delay)...)
	if err != nil {
		return err
	}
	f.raw = bt.Open(benchTable)
	if _, err = f.client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		return tx.Set(benchCell(knownRow, bodyColumn), []byte(knownRow))
	}); err != nil {
		return err
	}
	return errors.Join(f.rawMutate(ctx), f.rawRead(ctx)) // both once: the connections stand when the clock is started
}

// rawRead is a raw ReadRow of one cell.
func (f *latencyField) rawRead(ctx context.Context) error {
	row, err := f.raw.ReadRow(ctx, rawRow, bigtable.RowFilter(bigtable.LatestNFilter(1)))
	if err == nil && len(row[rawFamily]) != 1 {
		err = fmt.Errorf("a raw read found %d cells", len(row[rawFamily]))
	}
	return err
}

// rawMutate is a raw MutateRow of one cell, always at the same timestamp: the row does not grow.
func (f *latencyField) rawMutate(ctx context.Context) error {
	mut := bigtable.NewMutation()
	mut.Set(rawFamily, bodyColumn, 1000, []byte(knownRow))
	return f.raw.Apply(ctx, rawRow, mut)
}

// verify reads everything that was written and returns how many cells that were.
func (f *latencyField) verify(ctx context.Context, works []*latencyWork) (total int, err error) {
	found := map[string]int{}
	err = f.dying.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		for e, err := range s.Scan(ctx, benchTable, percolator.All()) {
			if err != nil {
				return err
			}
			if string(e.Value) != e.Cell.Row {
				return fmt.Errorf("row %s holds %q", e.Cell.Row, e.Value)
			}
			name, _, _ := strings.Cut(e.Cell.Row, "/")
			found[name]++
			total++
		}
		return nil
	})
	for _, w := range works {
		if want := w.transactions * w.rows; err == nil && found[w.name] != want {
			err = fmt.Errorf("%s: %d rows were committed, %d are there", w.name, want, found[w.name])
		}
	}
	return total, err
}
