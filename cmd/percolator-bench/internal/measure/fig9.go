package measure

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/tpce"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// fig9Benchmark measures trades (section 3.3 and Figure 9 of the paper). The numbers of cores are
// measured with the most customers, and the numbers of customers with the most cores.
type fig9Benchmark struct {
	Cores, Customers []int // GOMAXPROCS; the size of the firm
	Commission       []string
	Terminals        int           // customers' goroutines, and as many of the exchange
	FoldEvery        time.Duration // how long queued commissions wait for more, at most
	Duration         time.Duration // of one repetition, after a quarter of it that is not counted
	Seed             uint64        // of all chance except how goroutines take turns
}

func (b *fig9Benchmark) check() error { return within("commission", len(b.Commission), 1, 3) }

// allCores is the powers of two, and all.
func allCores(n int) (out []int) {
	for c := 1; c < n; c *= 2 {
		out = append(out, c)
	}
	return append(out, n)
}

// fig9Setting is what one row is measured with.
type fig9Setting struct {
	Cores, Customers int
	Commission       tpce.Commission
}

func (s fig9Setting) String() string {
	return fmt.Sprintf("%d cores, %d customers, commission %s", s.Cores, s.Customers, s.Commission)
}

// settings are in the order of the report: first those of the cores, then those of the customers.
func (b *fig9Benchmark) settings() (out []fig9Setting) {
	mostCores, mostCustomers := slices.Max(b.Cores), slices.Max(b.Customers)
	add := func(cores, customers int) {
		for _, c := range b.Commission {
			if s := (fig9Setting{cores, customers, tpce.Commission(c)}); !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	for _, n := range slices.Sorted(slices.Values(b.Cores)) {
		add(n, mostCustomers)
	}
	for _, n := range slices.Sorted(slices.Values(b.Customers)) {
		add(mostCores, n)
	}
	return out
}

// run lets the settings take turns, so that whatever else the machine does falls on all of them. A
// measurement gives up a minute after its time.
func (b *fig9Benchmark) run(ctx context.Context, r *run) error {
	r.Title = fmt.Sprintf("trades after TPC-E, %d terminals and %d hands of the exchange in a closed loop; mix: "+
		"%d %% trade-order, each with its trade-result, "+
		"%d %% customer-position, %d %% trade-status; %d of %v each, seed %d",
		b.Terminals, b.Terminals, tpce.TradeOrders, tpce.CustomerPositions, tpce.TradeStatuses, r.Repeat, b.Duration, b.Seed)
	settings := b.settings()
	results := make([][]*fig9Result, len(settings))
	r.all = r.Repeat * len(settings)
	for range r.Repeat {
		for i, s := range settings {
			out, err := b.measure(ctx, s, r.emulator)
			if err != nil {
				return fmt.Errorf("%v: %w", s, err)
			}
			r.Emulator = out.Emulator
			results[i] = append(results[i], out)
			r.step()
		}
	}
	trades := int64(0)
	for i, s := range settings {
		s.into(r, results[i])
		for _, out := range results[i] {
			trades += out.Audit.Trades
		}
	}
	b.draw(r)
	shared := "the emulator is another process, whose cores are neither limited nor counted"
	if r.emulator == embeddedEmulator {
		shared = "the emulator is in the same process and has its share of the cores"
	}
	r.Notes = append(r.Notes, "cores: GOMAXPROCS of the process with all clients and the oracle; "+shared,
		fmt.Sprintf("%d trades were ordered, and every one of them audited: money, holdings, commissions and prices are right", trades),
		"section 3.3 of the paper: its benchmark based on TPC-E, commissions omitted: 11200 trades/s on 15000 cores; "+
			"other machines, another store")
	return nil
}

// measure runs one repetition in another process, which has so many cores and a heap of its own.
func (b *fig9Benchmark) measure(ctx context.Context, s fig9Setting, emulator string) (_ *fig9Result, err error) {
	e, r := new(environment), new(fig9Result)
	defer e.closeInto(&err)
	e.part(ctx, "fig9-run", fig9Job{emulator, s, *b}, r, "GOMAXPROCS="+strconv.Itoa(s.Cores))
	if e.err != nil {
		return nil, e.err
	}
	if r.Cores != s.Cores {
		return nil, fmt.Errorf("a process with GOMAXPROCS %d had %d", s.Cores, r.Cores)
	}
	return r, nil
}

// into puts the repetitions of a setting together.
func (s fig9Setting) into(r *run, results []*fig9Result) {
	row := r.Table("fig9").Row(s.String())
	var tps, all, used []float64
	var commits, conflicts, transactions int64
	requests := map[string]int64{}
	kinds := map[tpce.Kind]*fig9Kind{}
	for _, out := range results {
		total := int64(0)
		for kind, k := range out.Kinds {
			if kinds[kind] == nil {
				kinds[kind] = new(fig9Kind)
			}
			n := k.Latencies.count()
			if total += n; kind.Writes() {
				commits, conflicts = commits+n, conflicts+k.Conflicts
			}
			kinds[kind].Conflicts += k.Conflicts
			kinds[kind].Latencies.merge(&k.Latencies)
		}
		transactions += total
		tps, all = append(tps, float64(out.Executed)/out.Seconds), append(all, float64(total)/out.Seconds)
		used = append(used, out.CPU/out.Seconds)
		addTo(&requests, out.Requests)
	}
	row.Add("cores", s.Cores, "customers", s.Customers, "brokers", tpce.Size(s.Customers).Brokers(),
		"commission", string(s.Commission), "trades/s", tps, "all transactions/s", all)
	row.Add("cores used", used) // 0: not known on this system
	row.Add("conflicts/commit", per(conflicts, commits),
		"storage requests/transaction", per(sumOf(requests)-requests["Oracle"], transactions))
	each := r.Table("requests/transaction").Row(s.String())
	for _, kind := range slices.Sorted(maps.Keys(requests)) {
		each.Add(kind, per(requests[kind], transactions))
	}
	types := r.Table(s.String())
	for _, kind := range tpce.Kinds {
		if k := kinds[kind]; k != nil {
			row := types.Row(string(kind))
			k.Latencies.into(row)
			row.Add("conflicts", k.Conflicts, "conflicts/commit", per(k.Conflicts, k.Latencies.count()))
		}
	}
	audits := r.Table("audits")
	audits.Series = true
	for _, out := range results {
		a := out.Audit
		audits.Append(s.String()).Add("trades", a.Trades, "settled", a.Settled, "rejected", a.Rejected, "accounts", a.Accounts,
			"commission, cents", a.Commission, "earned, cents", a.Earned)
	}
}

// per is 0 where nothing was counted.
func per(n, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// draw draws trades a second against cores and against customers.
func (b *fig9Benchmark) draw(r *run) {
	t := &report.Table{Rows: slices.Clone(r.Table("fig9").Rows)}
	slices.SortStableFunc(t.Rows, func(a, b *report.Row) int {
		return cmp.Or(cmp.Compare(a.Value("cores"), b.Value("cores")), cmp.Compare(a.Value("customers"), b.Value("customers")))
	})
	most := map[string]float64{"cores": float64(slices.Max(b.Cores)), "customers": float64(slices.Max(b.Customers))}
	lines := func(x, fixed string) (lines []report.Line) {
		for _, c := range []tpce.Commission{tpce.Queued, tpce.Direct, tpce.Omitted} {
			l := t.Line("commission: "+string(c), x, "trades/s", func(row *report.Row) bool {
				return row.Value(fixed) == most[fixed] && row.Figure("commission").Text == string(c)
			})
			if len(l.X) > 0 {
				lines = append(lines, l)
			}
		}
		return lines
	}
	tps := report.Axis{Label: "trades executed, 1/s"}
	byCores := lines("cores", "customers")
	r.Draw(report.Chart{Name: "fig9-cores", Title: fmt.Sprintf("%.0f customers on %s", most["customers"], r.Emulator),
		X: report.Axis{Label: "cores (GOMAXPROCS)"}, Y: tps, Lines: append(byCores, linear(byCores[0]))})
	r.Draw(report.Chart{Name: "fig9-customers", Title: fmt.Sprintf("Trades on %.0f cores and %s", most["cores"], r.Emulator),
		X: report.Axis{Label: "customers", Log: true}, Y: tps, Lines: lines("customers", "cores")})
}

// linear is how a line would go on if every core did what the first ones do.
func linear(l report.Line) report.Line {
	out := report.Line{Name: "linear"}
	for _, x := range l.X {
		out.X, out.Y = append(out.X, x), append(out.Y, l.Y[0]*x/l.X[0])
	}
	return out
}

// fig9Job is one repetition.
type fig9Job struct {
	Emulator string
	Setting  fig9Setting
	Of       fig9Benchmark
}

// fig9Result is what was counted while it was measured, and the audit of everything.
type fig9Result struct {
	Emulator     string
	Cores        int
	Seconds, CPU float64
	Requests     map[string]int64
	Audit        tpce.Audit

	mu       sync.Mutex
	counting bool
	Executed int64
	Kinds    map[tpce.Kind]*fig9Kind
}

// fig9Run is the process of one repetition.
func fig9Run(ctx context.Context, j fig9Job, l *lines) error {
	return answer(l, new(environment), func(struct{}) (*fig9Result, error) { return j.run(ctx) })
}

// run opens a firm, lets it work, and audits it.
func (j fig9Job) run(ctx context.Context) (_ *fig9Result, err error) {
	customers := j.Setting.Customers
	firm, err := tpce.New(tpce.Size(customers), j.Setting.Commission)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, j.warmUp()+j.Of.Duration+gracePeriod+time.Duration(customers)*10*time.Millisecond)
	defer cancel()
	g := startEnvironment(ctx, j.Emulator, firm.Schema())
	defer g.closeInto(&err)
	client := g.client(ctx, percolator.Config{})
	if g.err != nil {
		return nil, g.err
	}
	r := newFig9Result()
	r.Emulator, r.Cores = g.emulator, runtime.GOMAXPROCS(0)
	firm.Open(client, r.done)
	exchange := tpce.NewExchange(firm.Size().Securities(), j.Of.Seed)
	if err := firm.Load(ctx, exchange); err != nil {
		return nil, err
	}
	runtime.GC()               // what loading has left behind is not the measurement's
	var fold *observers.Worker // folds commissions; there is none where they are not queued
	if j.Setting.Commission == tpce.Queued {
		registry := observers.NewRegistry()
		if err := firm.Observe(registry, j.Of.FoldEvery); err != nil {
			return nil, err
		}
		if fold, _ = g.work(ctx, client, registry, observers.Config{}); g.err != nil {
			return nil, g.err
		}
	}
	if err := j.trade(ctx, firm, exchange, func(ctx context.Context) error { return j.watch(ctx, r, client) }); err != nil {
		return nil, err
	}
	if fold != nil {
		if err := fold.WaitIdle(ctx); err != nil {
			return nil, fmt.Errorf("folding the rest: %w", err)
		}
	}
	r.Audit, err = firm.Audit(ctx, exchange)
	return r, err
}

// warmUp is not counted.
func (j fig9Job) warmUp() time.Duration { return j.Of.Duration / 4 }

// trade lets the terminals and the exchange work while watch does, and then until every order has
// been executed and every price published.
func (j fig9Job) trade(ctx context.Context, firm *tpce.Firm, exchange *tpce.Exchange, watch func(context.Context) error) error {
	group, working := errgroup.WithContext(ctx)
	// An exchange that is behind holds up the terminals.
	tickets := make(chan tpce.Ticket, j.Of.Terminals)
	closing := make(chan struct{})
	group.Go(func() error {
		defer close(closing)
		return watch(working)
	})
	group.Go(func() error {
		defer close(tickets)
		terminals, selling := errgroup.WithContext(working)
		for i := range j.Of.Terminals {
			random := rand.New(rand.NewPCG(j.Of.Seed, uint64(i)))
			terminals.Go(func() error { return firm.Terminal(selling, random, tickets, closing) })
		}
		return terminals.Wait()
	})
	for range j.Of.Terminals {
		group.Go(func() error { return firm.Execute(working, exchange, tickets) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return firm.MarketFeed(ctx, exchange.Publish())
}

// watch waits until everything is warm and counts for as long as the measurement takes.
func (j fig9Job) watch(ctx context.Context, r *fig9Result, c *percolator.Client) error {
	pause(ctx, j.warmUp())
	started, cpu, requests := time.Now(), cpuTime(), c.Stats().Requests
	r.count(true)
	pause(ctx, j.Of.Duration)
	r.count(false)
	r.Seconds, r.CPU = time.Since(started).Seconds(), (cpuTime() - cpu).Seconds()
	r.Requests = minus(c.Stats().Requests, requests)
	return ctx.Err()
}

// fig9Kind is one type of transaction. Its latency is that of the closed loop, with all attempts.
type fig9Kind struct {
	Conflicts int64
	Latencies recorder
}

func newFig9Result() *fig9Result {
	r := &fig9Result{Kinds: map[tpce.Kind]*fig9Kind{}}
	for _, k := range tpce.Kinds {
		r.Kinds[k] = new(fig9Kind)
	}
	return r
}

// count begins or ends the time whose transactions count.
func (r *fig9Result) count(counting bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counting = counting
}

// done counts a transaction when it has ended.
func (r *fig9Result) done(d tpce.Done) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.counting {
		return
	}
	if d.Executed {
		r.Executed++
	}
	r.Kinds[d.Kind].Conflicts += int64(d.Attempts - 1)
	r.Kinds[d.Kind].Latencies.record(d.Took)
}
