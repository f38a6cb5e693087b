package measure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/observers"
)

// The events of fig10, in the order in which they happen.
const (
	fig10Outage     = "outage"
	fig10OracleDies = "oracle"
	fig10WorkerDies = "worker"
)

// fig10Benchmark measures the recovery from failures (section 3.4 and Figure 10 of the paper).
type fig10Benchmark struct {
	Only                          []string // names of events; none: all
	Accounts                      int
	Rate                          float64       // offered transfers/s; 0: two fifths of saturate's
	Saturate                      time.Duration // how long the greatest rate is looked for
	Deadline                      time.Duration // of each transfer: so long does a caller wait
	Steady, Outage, After, Bucket time.Duration
	fig10Setting
}

func (b *fig10Benchmark) check() error {
	return errors.Join(unless(b.Rate == 0 || b.Rate >= 1, "--rate %v is less than 1", b.Rate),
		unless(b.Bucket <= min(b.Steady, b.After), "--bucket %v is longer than --steady %v or --after %v", b.Bucket, b.Steady, b.After))
}

// saturatingWriters look for the greatest rate, and share of it is offered: enough that a failure
// is felt and little enough that what was held up can be caught up with.
const (
	saturatingWriters = 32
	offeredShare      = 0.4
)

// fig10Event is one fault and what came of it. Times are since the first transfer was offered.
type fig10Event struct {
	name string
	// Before it; while it lasts (not at all for a death); from its beginning on.
	steady, fault, watched span
	held                   int64
	counts                 map[string]int64 // of all clients, while it was watched
}

// fig10Run is a run under way.
type fig10Run struct {
	b       *fig10Benchmark
	env     *fig10Environment
	load    *transfers
	started time.Time // when the first transfer was offered
	ended   time.Time // when the last event had been watched
	events  []fig10Event
}

// run goes on with a steady load while parts of the system fail one after the other and come back.
// It takes saturate, for each event steady, the fault and after, and at most deadline and two
// minutes more.
func (b *fig10Benchmark) run(ctx context.Context, out *run) (err error) {
	events := slices.DeleteFunc([]string{fig10Outage, fig10OracleDies, fig10WorkerDies}, func(name string) bool {
		return len(b.Only) > 0 && !slices.Contains(b.Only, name)
	})
	ctx, cancel := context.WithTimeout(ctx, b.Saturate+time.Duration(len(events))*(b.Steady+b.After)+b.Outage+b.Deadline+2*gracePeriod)
	defer cancel()
	out.all = 2 + len(events)
	e, err := startFig10(ctx, b.fig10Setting, out.emulator)
	if err != nil {
		return err
	}
	defer e.closeInto(&err)
	out.Emulator = e.emulator
	r := &fig10Run{b: b, env: e, load: &transfers{client: e.client, accounts: b.Accounts, deadline: b.Deadline}}
	rate, saturated, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	out.step()
	shed, err := r.offer(ctx, rate, events, out.step)
	if err != nil {
		return err
	}
	how := "reads batched"
	if b.NoBatching {
		how = "reads not batched"
	}
	if b.NoRowLocks {
		how += ", workers without row locks"
	}
	out.Title = "recovery from failures, " + how
	if saturated > 0 {
		out.Title += fmt.Sprintf("; %d writers reach %.0f transfers/s", saturatingWriters, saturated)
	}
	offered := out.Table("load").Row("transfers")
	offered.Add("saturated, 1/s", saturated, "offered, 1/s", rate, "not started", shed)
	err = r.evaluate(ctx, out, rate)
	out.step()
	return err
}

// prepare opens the accounts and finds the rate.
func (r *fig10Run) prepare(ctx context.Context) (rate, saturated float64, err error) {
	if err := r.load.open(ctx); err != nil || r.b.Rate > 0 {
		return r.b.Rate, 0, err
	}
	started := time.Now()
	committed := r.load.saturate(ctx, saturatingWriters, r.b.Saturate)
	saturated = float64(committed) / time.Since(started).Seconds()
	if committed == 0 {
		return 0, 0, errors.New("no transfer was committed")
	}
	_, err = r.awaitIdle(ctx)
	return offeredShare * saturated, saturated, err
}

// awaitIdle waits until every notification has been answered by the workers, and returns how long
// that took.
func (r *fig10Run) awaitIdle(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, gracePeriod)
	defer cancel()
	w, err := observers.NewWorker(r.env.client, fig10Registry(), observers.Config{})
	if err != nil {
		return 0, err
	}
	return timed(ctx, w.WaitIdle)
}

// offer offers transfers while the events happen.
func (r *fig10Run) offer(ctx context.Context, rate float64, events []string, step func()) (shed int, err error) {
	var stop atomic.Bool
	group, gctx := errgroup.WithContext(ctx)
	r.started = time.Now()
	group.Go(func() (err error) {
		load := generator{rate: rate, most: mostPending, more: func() bool { return !stop.Load() }}
		_, shed, err = load.arrive(ctx, func(ctx context.Context, _ int) error { r.load.one(ctx); return nil })
		return err
	})
	group.Go(func() error {
		defer stop.Store(true)
		for _, name := range events {
			if err := r.event(gctx, name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			step()
		}
		r.ended = r.started.Add(r.events[len(r.events)-1].watched.to)
		return nil
	})
	err = group.Wait()
	return shed, err
}

// event watches the steady load, lets something fail, and watches again.
func (r *fig10Run) event(ctx context.Context, name string) (err error) {
	steady := span{from: time.Since(r.started)}
	if steady.from < r.b.Steady { // what is opened and learnt at first is not steady
		pause(ctx, r.b.Bucket)
		steady.from = time.Since(r.started)
	}
	pause(ctx, r.b.Steady)
	before := r.env.counts()
	steady.to = time.Since(r.started)
	e := fig10Event{name: name, steady: steady, fault: span{steady.to, steady.to}}
	switch begins := r.started.Add(steady.to); name {
	case fig10Outage:
		t := outageTimes{begins, begins.Add(min(100*time.Millisecond, r.b.Outage/10)), begins.Add(r.b.Outage)}
		e.fault.to += r.b.Outage
		if err = r.env.breakTablets(t); err == nil {
			pause(ctx, time.Until(t.Ends))
		}
	case fig10OracleDies: // without a handover the other waits for the lease's end
		var leader *process
		if leader, err = r.env.leader(ctx); err == nil {
			err = leader.kill()
		}
	case fig10WorkerDies:
		e.held, err = r.killWorker(ctx)
		e.fault.to = time.Since(r.started)
	}
	if err != nil {
		return err
	}
	pause(ctx, r.b.After)
	e.watched = span{steady.to, time.Since(r.started)}
	e.counts = minus(r.env.counts(), before)
	r.events = append(r.events, e)
	return ctx.Err()
}

// A worker gets no commit through for severedFor before it is killed, or longer until there is one:
// a busy machine may have none in the worker's hands.
const (
	severedFor  = 100 * time.Millisecond
	severedMost = time.Minute
)

// killWorker kills a worker that has locks: for a moment before, like one whose machine loses its
// network, it gets no commit through, while its prewrites still go.
func (r *fig10Run) killWorker(ctx context.Context) (held int64, err error) {
	w := r.env.workers[0]
	n, err := w.order(fig10Order{Sever: true})
	pause(ctx, severedFor)
	for severed := during(severedMost); err == nil && n.Held == 0 && severed() && ctx.Err() == nil; pause(ctx, newsEvery) {
		n, err = w.order(fig10Order{})
	}
	return n.Held, errors.Join(err, w.kill())
}

// evaluate waits for what is left to do, audits the store, and makes series and events of what was
// noted.
func (r *fig10Run) evaluate(ctx context.Context, out *run, rate float64) error {
	settled, err := r.awaitIdle(ctx)
	if err != nil {
		return err
	}
	results := r.load.results()
	audit, entries, err := auditStore(ctx, r.env.client, r.load)
	if err != nil {
		return err
	}
	m := momentsOf(results, entries, r.env.workers)
	all := seriesOf(r.started, r.ended.Sub(r.started), r.b.Bucket, m)
	series := out.Table("series")
	series.Series = true
	for _, b := range all {
		row := series.Append(fmt.Sprintf("%.3f s", b.at))
		row.Add("at, s", b.at, "width, s", r.b.Bucket.Seconds(), "transfers, 1/s", b.commits, "runs, 1/s", b.runs, "backlog", b.backlog)
	}
	var marks []report.Mark
	for _, e := range r.events {
		r.describe(out, e, all, results, m)
		begins, ends := e.fault.from.Seconds(), e.fault.to.Seconds()
		marks = append(marks, map[string][]report.Mark{
			fig10Outage:     {{At: begins, Name: "a third of the keys fails"}, {At: ends, Name: "it is back"}},
			fig10OracleDies: {{At: begins, Name: "the oracle's leader is killed"}},
			fig10WorkerDies: {{At: ends, Name: "a worker is killed"}},
		}[e.name]...)
	}
	out.Table("audit").Row("nothing left to do").Add("after the last transfer, s", settled.Seconds())
	audit.into(out.Table("audit").Row("in one snapshot"))
	out.failed = audit.err()
	seconds := report.Axis{Label: "time, s"}
	out.Draw(report.Chart{Name: "fig10-rates", Title: fmt.Sprintf("Failures and recovery: %.0f transfers/s offered", rate), X: seconds,
		Marks: marks, Y: report.Axis{Label: "committed, 1/s"},
		Lines: []report.Line{series.Line("observer runs", "at", "runs", nil), series.Line("transfers", "at", "transfers", nil)}})
	out.Draw(report.Chart{Name: "fig10-backlog", Title: "Failures and recovery: the observers' backlog", X: seconds, Marks: marks,
		Y: report.Axis{Label: "transfers without their run"}, Lines: []report.Line{series.Line("", "at", "backlog", nil)}})
	return nil
}

// momentsOf returns when things happened. Of a run that its worker could not tell of, as it was
// killed or did not hear of it either, that is when the observer was called.
func momentsOf(results []transfer, entries map[int64]journalEntry, workers []*fig10WorkerProcess) (m fig10Moments) {
	for _, t := range results {
		if _, there := entries[t.id]; t.err == nil {
			m.commits = append(m.commits, t.ended)
		} else if there {
			m.untold = append(m.untold, t.ended)
		}
	}
	ran := map[int64]time.Time{}
	for _, w := range workers {
		w.mu.Lock()
		for row, at := range w.runs {
			if id, err := numberOf(row); err == nil {
				ran[id] = at
			}
		}
		w.mu.Unlock()
	}
	for id, e := range entries {
		if _, told := ran[id]; !told && e.N > 0 {
			ran[id] = e.Last
		}
	}
	m.runs = slices.Collect(maps.Values(ran))
	for _, t := range results {
		if at, ok := ran[t.id]; ok {
			m.waits = append(m.waits, fig10Wait{at, at.Sub(t.ended)})
		}
	}
	for _, moments := range [][]time.Time{m.commits, m.untold, m.runs} {
		slices.SortFunc(moments, time.Time.Compare)
	}
	return m
}

// describe adds the rates and the work of an event.
func (r *fig10Run) describe(out *run, e fig10Event, all []fig10Bucket, results []transfer, m fig10Moments) {
	rates, work := out.Table("rates").Row(e.name), out.Table("work").Row(e.name)
	rates.Add("from, s", e.fault.from.Seconds(), "to, s", e.fault.to.Seconds(), "until, s", e.watched.to.Seconds())
	for _, kind := range []struct {
		name string
		of   func(fig10Bucket) float64
	}{{"transfers", func(b fig10Bucket) float64 { return b.commits }}, {"runs", func(b fig10Bucket) float64 { return b.runs }}} {
		d := dipOf(all, r.b.Bucket, e.steady, e.fault, e.watched.to, kind.of)
		rates.Add(kind.name+" before, 1/s", d.before)
		if e.name == fig10Outage { // what dies at once has no time in between
			rates.Add(kind.name+" during, 1/s", d.during)
		}
		rates.Add(kind.name+" lowest, 1/s", d.lowest)
		recovery(rates, kind.name+" back to 90 % after", d.recovery)
	}
	rates.Add("longest without any transfer, s", longestGap(r.started, m.commits, e.watched).Seconds())
	backlog := backlogOf(all, r.b.Bucket, e.steady, e.fault, e.watched.to)
	work.Add("backlog before", backlog.before, "most", backlog.most)
	recovery(work, "back after", backlog.recovery)
	wait := 0.
	for _, w := range m.waits {
		if e.watched.has(w.until.Sub(r.started)) {
			wait = max(wait, w.lasted.Seconds())
		}
	}
	work.Add("longest wait for a run, s", wait)
	for _, name := range []string{"rolled forward", "rolled back", "conflicts", "refused", "answers lost"} {
		work.Add(name, e.counts[name])
	}
	work.Add("commits held when killed", e.held)
	failed := map[string]int{}
	for _, t := range results {
		if t.err != nil && e.watched.has(t.ended.Sub(r.started)) {
			failed[sentinelOf(t.err)]++
		}
	}
	work.Add("outcome unknown", failed[sentinels[0].name])
	delete(failed, sentinels[0].name)
	list := []string{"none"}
	for i, name := range slices.Sorted(maps.Keys(failed)) {
		list = append(list[:i], fmt.Sprintf("%d %s", failed[name], name))
	}
	work.Add("other errors of callers", strings.Join(list, ", "))
}

func recovery(row *report.Row, name string, seconds *float64) {
	if seconds == nil {
		row.Add(name, "not watched so long")
		return
	}
	row.Add(name+", s", *seconds)
}
