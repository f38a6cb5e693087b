package measure

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// changesBenchmark counts what a change costs, by cause: transactions read and write some rows
// each, an observer reads a second row for each and writes it, and a collector removes what they
// have overwritten. It is the workload of docs/examples/capacity/10k.yaml without its snapshots.
type changesBenchmark struct {
	Changes     int   // rows that transactions write, each once
	Rows        int   // of a transaction
	Concurrency []int // transactions at once, and runs of the observer
	NoObserver  bool
	Delay       time.Duration
}

func (b *changesBenchmark) check() error {
	if len(b.Concurrency) == 0 {
		return usagef("--concurrency needs a number")
	}
	return unless(b.Rows*slices.Max(b.Concurrency) <= b.Changes, "%d changes are too few for %d transactions of %d rows", b.Changes, slices.Max(b.Concurrency), b.Rows)
}

const (
	changedTable = "documents"
	secondTable  = "derived"
	changedText  = "text"
)

// schema has short drains where little is stored. The more there is, the longer a request may take.
func (b *changesBenchmark) schema() *percolator.Schema {
	t := percolator.Table{Name: changedTable}
	if !b.NoObserver {
		t.Observed = []string{changedText}
	}
	lifetime := min(3*time.Second+time.Duration(b.Changes)*20*time.Microsecond, 30*time.Second)
	return &percolator.Schema{Tables: []percolator.Table{t, {Name: secondTable}},
		Timing: percolator.Timing{RequestLifetime: lifetime, MetaMaxAge: lifetime + 2*time.Second}}
}

func (b *changesBenchmark) run(ctx context.Context, r *run) error {
	r.Title = fmt.Sprintf("what a change costs: %d changes, %d rows a transaction; %.1f ms added to each request", b.Changes, b.Rows, milliseconds(b.Delay))
	r.all = 2 * len(b.Concurrency)
	for _, n := range b.Concurrency {
		if err := b.measure(ctx, n, r); err != nil {
			return fmt.Errorf("concurrency %d: %w", n, err)
		}
	}
	return nil
}

// changesSite is an instance with a program, a worker and a collector, each with a client of its
// own, so that their requests are told apart.
type changesSite struct {
	*environment
	program, worker, collector *percolator.Client
	sent                       map[string]*causeCounter // of each
	runs                       atomic.Int64
	ahead                      atomic.Int64 // of the wall clock, the oracle's
}

func (b *changesBenchmark) start(ctx context.Context, concurrency int, emulator string) (*changesSite, error) {
	s := &changesSite{environment: newEnvironment(ctx, emulator, b.schema()), sent: map[string]*causeCounter{}}
	s.runOracle(ctx, tso.ServerConfig{Now: func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }})
	client := func(name string) *percolator.Client {
		s.sent[name] = newCauseCounter()
		return s.environment.client(ctx, percolator.Config{Retention: time.Minute}, append(delayed(b.Delay), s.sent[name].option())...)
	}
	s.program, s.worker, s.collector = client("program"), client("worker"), client("collector")
	registry := observers.NewRegistry()
	registry.Observe("derive", changedTable, changedText, func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		s.runs.Add(1)
		second := percolator.Cell{Table: secondTable, Row: ch.Cell.Row, Column: changedText}
		if _, err := tx.GetMulti(ctx, second); err != nil {
			return err
		}
		return tx.Set(second, ch.Value)
	}, observers.CommitTogether())
	if !b.NoObserver {
		s.work(ctx, s.worker, registry, observers.Config{Concurrency: concurrency})
	}
	return s, s.orClose()
}

// measure may take five minutes and 20 ms for each change.
func (b *changesBenchmark) measure(ctx context.Context, concurrency int, r *run) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute+time.Duration(b.Changes)*20*time.Millisecond)
	defer cancel()
	s, err := b.start(ctx, concurrency, r.emulator)
	if err != nil {
		return err
	}
	defer s.closeInto(&err)
	r.Emulator = s.emulator
	if _, err := b.change(ctx, s, concurrency); err != nil { // the first versions
		return err
	}
	if err := observers.WaitIdle(ctx, s.worker, nil); err != nil {
		return err
	}
	if _, err := s.collect(ctx); err != nil {
		return err
	}
	before := s.causes()
	changed, err := b.change(ctx, s, concurrency)
	if err != nil {
		return err
	}
	r.step()
	col, err := s.collect(ctx)
	if err != nil {
		return err
	}
	reportChanges(r, fmt.Sprint("at ", concurrency), float64(changed), s.causes().minus(before), col)
	r.step()
	return nil
}

// collect collects what was changed before.
func (s *changesSite) collect(ctx context.Context) (col model.Collection, err error) {
	s.ahead.Add(int64(time.Minute + 10*time.Second))
	g, err := admin.New(s.collector).NewCollector(model.CollectorConfig{RowsPerSecond: 1 << 20})
	if err != nil {
		return col, err
	}
	return g.Collect(ctx)
}

// maxBehind is how many runs the observer may be behind: what a backlog costs is another question.
const maxBehind = 512

// change changes each document, and waits until the observer has run for all.
func (b *changesBenchmark) change(ctx context.Context, s *changesSite, concurrency int) (changed int64, err error) {
	ran := s.runs.Load()
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrency)
	for from := 0; from+b.Rows <= b.Changes; from += b.Rows {
		cells := make([]percolator.Cell, b.Rows)
		for i := range cells {
			cells[i] = percolator.Cell{Table: changedTable, Row: documentKey(from + i), Column: changedText}
		}
		for !b.NoObserver && changed-(s.runs.Load()-ran) > maxBehind && gctx.Err() == nil {
			pause(ctx, time.Millisecond)
		}
		changed += int64(b.Rows)
		g.Go(func() error {
			_, err := s.program.Update(gctx, func(ctx context.Context, tx *percolator.Txn) error {
				if _, err := tx.GetMulti(ctx, cells...); err != nil {
					return err
				}
				for _, c := range cells {
					if err := tx.Set(c, fmt.Append(nil, s.runs.Load())); err != nil {
						return err
					}
				}
				return nil
			})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return changed, err
	}
	for !b.NoObserver && s.runs.Load() < ran+changed && ctx.Err() == nil {
		pause(ctx, 10*time.Millisecond)
	}
	return changed, cmp.Or(s.program.Flush(ctx), s.worker.Flush(ctx), ctx.Err())
}

// documentKey spreads documents over the key space, as in a large table.
func documentKey(n int) string { return fmt.Sprintf("%08x", bits.Reverse32(uint32(n))) }

// causes is what all clients have sent so far.
func (s *changesSite) causes() (sum causeCounts) {
	sum = newCauseCounts()
	for name, c := range s.sent {
		counts := c.counts()
		for cause, n := range counts.requests {
			sum.requests[name+": "+cause] = n
			sum.rows[name+": "+cause] = counts.rows[cause]
		}
	}
	return sum
}

// reportChanges adds a column for n changes.
func reportChanges(r *run, name string, n float64, c causeCounts, col model.Collection) {
	for _, of := range []struct {
		table  string
		counts map[string]int64
	}{{"requests a change", c.requests}, {"rows a change", c.rows}} {
		for _, cause := range slices.SortedFunc(maps.Keys(of.counts), func(x, y string) int {
			return cmp.Or(cmp.Compare(of.counts[y], of.counts[x]), strings.Compare(x, y))
		}) {
			r.Table(of.table).Row(cause).Add(name, float64(of.counts[cause])/n)
		}
	}
	sum := func(counts map[string]int64, of func(cause string) bool) (sum float64) {
		for cause, n := range counts {
			if of(cause) {
				sum += float64(n)
			}
		}
		return sum / n
	}
	conditional := func(cause string) bool {
		return strings.Contains(cause, ": prewrite ") || strings.Contains(cause, ": commit ")
	}
	read := func(cause string) bool {
		_, kind, _ := strings.Cut(cause, ": ")
		kind, _, _ = strings.Cut(kind, " ")
		return slices.Contains([]string{readGet, readScan, readCheck, readLook, readSearch, readOwn}, kind)
	}
	row := r.Table("in all, a change").Row(name)
	row.Add("conditional mutations", sum(c.requests, conditional), "requests to read", sum(c.requests, read), "rows read", sum(c.rows, read),
		"rows written without a condition", sum(c.rows, func(cause string) bool { return !conditional(cause) && !read(cause) }),
		"rows that the collector read", float64(col.Rows)/n, "and erased in without reading", float64(col.Unread)/n)
}
