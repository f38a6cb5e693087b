package measure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/bigtable"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/percolator"
)

// latencyBenchmark measures transactions in multiples of the time of one raw request under the same
// delay.
type latencyBenchmark struct {
	// delay is added to each request to the store and to each request for a timestamp. It should be
	// long compared with what the emulator needs, or the processor is measured and not how many
	// requests follow each other.
	Delay      time.Duration
	Iterations int // transactions of each kind in a repetition
}

func (b *latencyBenchmark) check() error { return nil }

const (
	// latencyTurn is how many transactions follow each other before it is the raw requests' turn. A
	// blind transaction takes a timestamp that was fetched during those before it, so there have to
	// be some.
	latencyTurn = 10
	// countedTransactions is of how many transactions of each kind the requests are counted.
	countedTransactions = 10
)

// run gives up when it takes ten times as long as its requests one after the other.
func (b *latencyBenchmark) run(ctx context.Context, r *run) (err error) {
	const requests = 60 // of all kinds of transactions, one each, with the raw requests beside them
	each := requests * (b.Delay + time.Millisecond)
	ctx, cancel := context.WithTimeout(ctx, gracePeriod+10*each*time.Duration(r.Repeat*b.Iterations+1+countedTransactions))
	defer cancel()
	f, err := startLatency(ctx, b.Delay, r.emulator)
	if err != nil {
		return err
	}
	defer f.closeInto(&err)
	r.Emulator = f.emulator
	r.Title = fmt.Sprintf("transactions in request times, %.1f ms added to each request, %d × %d of each kind",
		milliseconds(b.Delay), r.Repeat, b.Iterations)
	works := f.works()
	r.all = len(works) * (r.Repeat + 1)
	for i := range r.Repeat + 1 {
		for _, w := range works {
			if i == 0 {
				err = f.count(ctx, w)
			} else {
				err = f.time(ctx, b.Iterations, w)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			r.step()
		}
	}
	r.Table("raw").Row("ReadRow").Add("time, ms", f.reads)
	r.Table("raw").Row("MutateRow").Add("time, ms", f.mutates)
	bars := []report.Bars{{Name: "measured"}, {Name: "goal (at most)"}}
	for _, w := range works {
		w.into(r)
		bars[0].Values, bars[1].Values = append(bars[0].Values, report.Median(w.multiples)), append(bars[1].Values, w.goal)
	}
	r.Draw(report.Chart{Name: "latency", Title: fmt.Sprintf("Transactions with %.0f ms added to each request", milliseconds(b.Delay)),
		Y: report.Axis{Label: "times one raw request"}, Bars: bars,
		Categories: []string{"get", "set", "set, blind", "get, set 2", "set 10", "set 10, blind", "past a lock"}})
	verified, err := f.verify(ctx, works)
	r.Notes = append(r.Notes, fmt.Sprintf("%d cells read back", verified))
	return err
}

// latencyKinds are the requests that are told, with the sum of those to the store.
var latencyKinds = []string{"ReadRows", "CheckAndMutateRow", "MutateRows", "storage", "Oracle"}

// into adds what was measured of a kind of transaction.
func (w *latencyWork) into(r *run) {
	times := r.Table("request times").Row(w.name)
	times.Add("multiple", w.multiples)
	if w.goal > 0 {
		times.Want(report.Goal{Wanted: w.goal, Peer: w.peer})
	}
	times.Add("time, ms", w.means)
	requests := r.Table("requests").Row(w.name)
	for _, kind := range latencyKinds {
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
	rawRow   = "raw" // of raw requests; one cell without a record, so our clients do not see it
)

// rawFamily is that of our data (docs/internals/PROTOCOL.md, "Cells"), so that both sides read and
// write the same table.
const rawFamily = "data"

// latencyField is an environment with all participants. The oracle is reached over gRPC
// like the store, so that a timestamp is no cheaper than another request.
type latencyField struct {
	*environment
	oracle *distantClient
	client *percolator.Client // the one that is measured: everything is far away
	dying  *percolator.Client // leaves locks behind; nothing is far away
	raw    *bigtable.Table    // as far away
	sent   requestCounter     // by client

	reads, mutates []float64 // mean ms of raw requests, by repetition and kind of transaction
}

func startLatency(ctx context.Context, delay time.Duration, emulator string) (*latencyField, error) {
	schema := &percolator.Schema{Tables: []percolator.Table{{Name: benchTable}}}
	f := &latencyField{environment: newEnvironment(ctx, emulator, schema)}
	near, far := f.distantOracle(ctx, delay)
	f.oracle = far
	f.client = f.environment.client(ctx, percolator.Config{Oracle: far}, append(delayed(delay), f.sent.option())...)
	f.dying = f.environment.client(ctx, percolator.Config{Oracle: near}, losePhaseTwo())
	f.raw = f.environment.raw(ctx, delayed(delay)...)(benchTable)
	if f.err == nil {
		_, f.err = f.client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
			return tx.Set(benchCell(knownRow, bodyColumn), []byte(knownRow))
		})
	}
	if f.err == nil { // both once: the connections stand when the clock is started
		f.err = errors.Join(f.rawMutate(ctx), f.rawRead(ctx))
	}
	return f, f.orClose()
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
	return f.raw.Apply(ctx, rawRow, setCell(rawFamily, bodyColumn, 1000, []byte(knownRow)))
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

// latencyWork is one kind of transaction.
type latencyWork struct {
	name        string
	goal        float64 // of the multiple; 0: none was set
	peer        string  // the multiple of TiKV's client, measured the same way
	storageGoal int     // of storage requests
	storagePeer string
	rows        int // that one transaction writes

	prepare func(ctx context.Context, row string) error // before the clock is started; nil: nothing
	run     func(ctx context.Context, row string) error

	transactions int // that were run

	requests         map[string][]float64 // of each counted transaction, by kind, with phase two
	means, multiples []float64            // of each repetition: milliseconds, raw requests
}

// works are the kinds of transactions. Each transaction writes rows of its own, whose names begin
// with its row; what they hold is their name, so that everything can be verified in the end.
func (f *latencyField) works() []*latencyWork {
	begin := func(c *percolator.Client, do func(ctx context.Context, tx *percolator.Txn, row string) error,
		opts ...percolator.TxnOption) func(context.Context, string) error {
		return func(ctx context.Context, row string) error {
			tx, err := c.Begin(ctx, opts...)
			if err != nil {
				return err
			}
			return do(ctx, tx, row)
		}
	}
	known := func(ctx context.Context, tx *percolator.Txn, _ string) error { return f.get(ctx, tx, knownRow) }
	knownAndTwo := func(ctx context.Context, tx *percolator.Txn, row string) error {
		if err := f.get(ctx, tx, knownRow); err != nil {
			return err
		}
		return setAndCommit(2)(ctx, tx, row)
	}
	secondary := func(ctx context.Context, tx *percolator.Txn, row string) error { return f.get(ctx, tx, rowOf(row, 1)) }
	blind := percolator.Blind()
	return []*latencyWork{
		{name: "begin, get", run: begin(f.client, known)},
		{name: "begin, set, commit", goal: 4.2, peer: "4.24", rows: 1, run: begin(f.client, setAndCommit(1))},
		{name: "begin, set, commit: blind", goal: 3.2, rows: 1, run: begin(f.client, setAndCommit(1), blind)},
		{name: "begin, get, set 2 rows, commit", goal: 5.2, peer: "5.33", rows: 2, run: begin(f.client, knownAndTwo)},
		{name: "begin, set 10 rows, commit", goal: 4.3, peer: "4.31", storageGoal: 12, storagePeer: "20", rows: 10,
			run: begin(f.client, setAndCommit(10))},
		{name: "begin, set 10 rows, commit: blind", goal: 3.3, storageGoal: 12, rows: 10,
			run: begin(f.client, setAndCommit(10), blind)},
		{name: "begin, get past a lock whose primary is committed", storageGoal: 3, rows: 2,
			prepare: begin(f.dying, setAndCommit(2)), run: begin(f.client, secondary)},
	}
}

// setAndCommit sets a number of rows and commits.
func setAndCommit(rows int) func(context.Context, *percolator.Txn, string) error {
	return func(ctx context.Context, tx *percolator.Txn, row string) error {
		for i := range rows {
			if err := tx.Set(benchCell(rowOf(row, i), bodyColumn), []byte(rowOf(row, i))); err != nil {
				return err
			}
		}
		_, err := tx.Commit(ctx)
		return err
	}
}

func rowOf(row string, i int) string { return fmt.Sprintf("%s-%d", row, i) }

// get reads a row and compares.
func (f *latencyField) get(ctx context.Context, tx *percolator.Txn, row string) error {
	v, err := tx.Get(ctx, benchCell(row, bodyColumn))
	if err == nil && string(v) != row {
		err = fmt.Errorf("row %s holds %q", row, v)
	}
	return err
}

// perform makes one transaction of a kind.
func (f *latencyField) perform(ctx context.Context, w *latencyWork) (time.Duration, error) {
	row := fmt.Sprintf("%s/%06d", w.name, w.transactions)
	w.transactions++
	if w.prepare != nil {
		if err := w.prepare(ctx, row); err != nil {
			return 0, fmt.Errorf("preparing: %w", err)
		}
	}
	return timed(context.WithValue(ctx, waitedFor{}, true), func(ctx context.Context) error { return w.run(ctx, row) })
}

// count runs transactions one by one, each until its phase two is over, and counts their requests.
// Before them is one that does not count: with the first blind transaction of a client no timestamp
// is at hand.
func (f *latencyField) count(ctx context.Context, w *latencyWork) error {
	w.requests = map[string][]float64{}
	for i := range 1 + countedTransactions {
		before, waited := f.sent.now().requests, f.oracle.waited.Load()
		if _, err := f.perform(ctx, w); err != nil {
			return err
		}
		if err := f.client.Flush(ctx); err != nil {
			return fmt.Errorf("phase two: %w", err)
		}
		sent := minus(f.sent.now().requests, before)
		sent["storage"] = sent["ReadRows"] + sent["CheckAndMutateRow"] + sent["MutateRows"]
		// Count only those that the transaction waited for.
		sent["Oracle"] = f.oracle.waited.Load() - waited
		for _, kind := range latencyKinds {
			if i > 0 {
				w.requests[kind] = append(w.requests[kind], float64(sent[kind]))
			}
		}
	}
	return nil
}

// time measures one repetition: transactions and raw requests in turns, each of both kinds of these
// as often as the other.
func (f *latencyField) time(ctx context.Context, iterations int, w *latencyWork) error {
	const rawEach = 3 // raw requests of each kind in a turn
	var ours, reads, mutates time.Duration
	n := 0
	for i := 0; i < iterations; {
		for range rawEach {
			r, err := timed(ctx, f.rawRead)
			if err != nil {
				return fmt.Errorf("raw ReadRow: %w", err)
			}
			m, err := timed(ctx, f.rawMutate)
			if err != nil {
				return fmt.Errorf("raw MutateRow: %w", err)
			}
			reads, mutates, n = reads+r, mutates+m, n+1
		}
		for end := min(i+latencyTurn, iterations); i < end; i++ {
			d, err := f.perform(ctx, w)
			if err != nil {
				return err
			}
			ours += d
		}
		if err := f.client.Flush(ctx); err != nil { // the raw requests are not to meet it
			return fmt.Errorf("phase two: %w", err)
		}
	}
	mean, r, m := milliseconds(ours)/float64(iterations), milliseconds(reads)/float64(n), milliseconds(mutates)/float64(n)
	w.means, w.multiples = append(w.means, mean), append(w.multiples, mean/((r+m)/2))
	f.reads, f.mutates = append(f.reads, r), append(f.mutates, m)
	return nil
}

func timed(ctx context.Context, f func(context.Context) error) (time.Duration, error) {
	started := time.Now()
	err := f(ctx)
	return time.Since(started), err
}

// losePhaseTwo makes a client's MutateRows to users' tables fail, with an error after which no one
// tries again. What its transactions leave in the store is what is there when a client dies right
// after the commit point: the primary's record, and the locks of all other rows.
func losePhaseTwo() option.ClientOption {
	return option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(
		func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
			open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := open(ctx, desc, conn, method, opts...)
			if err == nil && method == btpb.Bigtable_MutateRows_FullMethodName {
				s = losing{s}
			}
			return s, err
		}))
}

// losing is a stream whose request is lost. Without a message the server has nothing to act upon.
type losing struct{ grpc.ClientStream }

// SendMsg implements grpc.ClientStream.
func (s losing) SendMsg(m any) error {
	if to, ok := m.(*btpb.MutateRowsRequest); ok && !ownTable(to.TableName) {
		return status.Error(codes.FailedPrecondition, "phase two is lost")
	}
	return s.ClientStream.SendMsg(m)
}
