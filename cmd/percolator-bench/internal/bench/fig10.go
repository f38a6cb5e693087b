package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/observers"
)

// The events of fig10, in the order in which they happen.
const (
	Fig10Outage     = "outage"
	Fig10OracleDies = "oracle"
	Fig10WorkerDies = "worker"
)

// Fig10Events returns the names of all events, in their order.
func Fig10Events() []string { return []string{Fig10Outage, Fig10OracleDies, Fig10WorkerDies} }

// Fig10Config says how the recovery from failures is measured.
type Fig10Config struct {
	// Self is the command line that runs a part of the benchmark in another process; "oracle" or "worker" follow.
	Self     []string
	Emulator string
	Only     []string // names of events; none: all

	Accounts  int
	Rate      float64       // transfers offered a second; 0: two fifths of what Saturate finds
	Saturate  time.Duration // how long the greatest rate is looked for
	Deadline  time.Duration // of each transfer: so long does a caller wait
	Steady    time.Duration // before each event
	OutageFor time.Duration // how long a third of the keys is unavailable
	After     time.Duration // how long is watched after the end of each fault
	Bucket    time.Duration // of the series

	LockTTL         time.Duration // of all clients
	Oracle          OracleTimes
	DisableBatching bool // of reads; for comparison
	// DisableRowLocks lets the workers lock no rows against each other. Those that a killed worker has locked are left alone by
	// others for 10 s: short runs do not want to wait so long.
	DisableRowLocks bool

	// Progress is told after each part how many of how many are done. nil: nobody wants to know.
	Progress func(done, all int)
}

// Fig10Report is what was measured.
type Fig10Report struct {
	Machine
	Emulator  string  `json:"emulator"`
	Batching  bool    `json:"batching"`
	RowLocks  bool    `json:"row_locks"`
	Saturated float64 `json:"saturated_per_second,omitempty"` // with saturatingWriters; 0: not looked for
	Offered   float64 `json:"offered_per_second"`
	Shed      int64   `json:"not_begun"` // offered while too many were under way

	Width   float64       `json:"bucket_s"`
	Buckets []Fig10Bucket `json:"buckets"`
	Events  []Fig10Event  `json:"events"`
	Settled float64       `json:"settled_s"` // from the end of the last transfer until nothing was left to do
	Audit   Fig10Audit    `json:"audit"`
}

// Fig10Event is one fault and what came of it. Times are seconds since the first transfer was offered.
type Fig10Event struct {
	Name   string  `json:"name"`
	Begins float64 `json:"begins_s"`
	Ends   float64 `json:"ends_s"` // of what dies at once: the same
	Until  float64 `json:"until_s"`

	Commits Fig10Dip     `json:"transactions_per_second"`
	Runs    Fig10Dip     `json:"runs_per_second"`
	Backlog Fig10Backlog `json:"backlog"`
	Gap     float64      `json:"longest_without_commit_s"`
	Wait    float64      `json:"longest_wait_for_run_s"` // from acknowledgment to run, of the runs from the event on

	// Of all clients, from the event until the end of what was watched.
	RolledForward int64            `json:"rolled_forward"`
	RolledBack    int64            `json:"rolled_back"`
	Conflicts     int64            `json:"conflicts"`
	Refused       int64            `json:"refused,omitempty"`      // by the outage: requests, and entries of bulk mutations
	AnswersLost   int64            `json:"answers_lost,omitempty"` // writes that were applied and not acknowledged
	Held          int64            `json:"held,omitempty"`         // commits that the worker had under way when it was killed
	Errors        map[string]int64 `json:"errors"`                 // of callers, by sentinel, without ErrOutcomeUnknown
	Unknown       int64            `json:"outcome_unknown"`        // callers that were told ErrOutcomeUnknown

	steady, watched span // watched is from the event on
	counts          fig10Counts
}

// saturatingWriters look for the greatest rate, and share of it is offered: enough that a failure is felt and little enough that
// what was held up can be caught up with.
const (
	saturatingWriters = 32
	offeredShare      = 0.4
)

// Fig10 runs the benchmark of Figure 10 of the paper (section 3.4): a steady load goes on while parts of the system fail one after
// the other and come back. It takes Saturate, for each event Steady, the fault and After, and at most Deadline and two minutes more.
func Fig10(ctx context.Context, cfg Fig10Config) (_ *Fig10Report, err error) {
	events := cfg.Only
	if len(events) == 0 {
		events = Fig10Events()
	}
	longest := cfg.Saturate + time.Duration(len(events))*(cfg.Steady+cfg.After) + cfg.OutageFor + cfg.Deadline + 2*patience
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	all, done := 2+len(events), 0
	step := func() {
		if done++; cfg.Progress != nil {
			cfg.Progress(done, all)
		}
	}
	g, err := startFig10(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstOf(err, g.close()) }()
	r := &fig10Run{cfg: cfg, ground: g, load: &transfers{client: g.client, accounts: cfg.Accounts, deadline: cfg.Deadline},
		report: &Fig10Report{Machine: ThisMachine(time.Now()), Emulator: g.emulator, Batching: !cfg.DisableBatching,
			RowLocks: !cfg.DisableRowLocks, Offered: cfg.Rate, Width: cfg.Bucket.Seconds()}}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	step()
	if err := r.run(ctx, events, step); err != nil {
		return nil, err
	}
	if err := r.evaluate(ctx); err != nil {
		return nil, err
	}
	step()
	return r.report, nil
}

// fig10Run is a run under way.
type fig10Run struct {
	cfg    Fig10Config
	ground *fig10Ground
	load   *transfers
	report *Fig10Report
	begun  time.Time // when the first transfer was offered
	ended  time.Time // when the last event had been watched
}

// prepare opens the accounts and finds the rate.
func (r *fig10Run) prepare(ctx context.Context) error {
	if err := r.load.open(ctx); err != nil {
		return err
	}
	if r.cfg.Rate > 0 {
		return nil
	}
	r.report.Saturated = r.load.saturate(ctx, saturatingWriters, r.cfg.Saturate)
	if r.report.Offered = offeredShare * r.report.Saturated; r.report.Offered == 0 {
		return errors.New("no transfer was committed")
	}
	_, err := r.settle(ctx)
	return err
}

// settle waits until every notification has been answered, and returns how long that took.
func (r *fig10Run) settle(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w, err := observers.NewWorker(r.ground.client, fig10Registry(), observers.Config{DisableCollection: true})
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	err = w.WaitIdle(ctx) // the workers are other processes
	return time.Since(begun), err
}

// run offers transfers while the events happen.
func (r *fig10Run) run(ctx context.Context, events []string, step func()) error {
	stop := make(chan struct{})
	group, gctx := errgroup.WithContext(ctx)
	r.begun = time.Now()
	group.Go(func() error { r.load.offer(ctx, r.report.Offered, stop); return nil })
	group.Go(func() error {
		defer close(stop)
		for _, name := range events {
			if err := r.event(gctx, name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			step()
		}
		r.ended = time.Now()
		return nil
	})
	return group.Wait()
}

// event watches the steady load, lets something fail, and watches again.
func (r *fig10Run) event(ctx context.Context, name string) error {
	steady := span{from: time.Since(r.begun)}
	if steady.from < r.cfg.Steady { // what is opened and learnt at first is not steady
		if err := pause(ctx, r.cfg.Bucket); err != nil {
			return err
		}
		steady.from = time.Since(r.begun)
	}
	if err := pause(ctx, r.cfg.Steady); err != nil {
		return err
	}
	before := r.ground.counts()
	steady.to = time.Since(r.begun)
	e := Fig10Event{Name: name, steady: steady}
	var err error
	switch begins := r.begun.Add(steady.to); name {
	case Fig10Outage:
		t := outageTimes{begins, begins.Add(r.cfg.OutageFor)}
		if err = r.ground.breakTablets(t); err == nil {
			err = pause(ctx, time.Until(t.Ends))
		}
		e.Ends = t.Ends.Sub(r.begun).Seconds()
	case Fig10OracleDies:
		err = r.killOracle(ctx)
		e.Ends = steady.to.Seconds()
	case Fig10WorkerDies:
		e.Held, err = r.killWorker(ctx)
		e.Ends = time.Since(r.begun).Seconds()
	default:
		err = errors.New("there is no such event")
	}
	if err != nil {
		return err
	}
	if err := pause(ctx, r.cfg.After); err != nil {
		return err
	}
	e.Begins, e.watched = steady.to.Seconds(), span{steady.to, time.Since(r.begun)}
	e.Until = e.watched.to.Seconds()
	e.counts = r.ground.counts().minus(before)
	r.report.Events = append(r.report.Events, e)
	return nil
}

// killOracle kills the server that leads, which does not hand over: the other one has to wait for the end of its lease.
func (r *fig10Run) killOracle(ctx context.Context) error {
	leader, err := r.ground.leader(ctx)
	if err != nil {
		return err
	}
	return killChild(leader)
}

// severedFor is how long a worker gets no commit through before it is killed, or longer until there is one.
const severedFor = 100 * time.Millisecond

// killWorker kills a worker that has locks: for a moment before, like one whose machine loses its network, it gets no commit
// through, while its prewrites still go.
func (r *fig10Run) killWorker(ctx context.Context) (held int64, err error) {
	w := r.ground.workers[0]
	if err := w.tell(fig10Order{Sever: true}); err != nil {
		return 0, err
	}
	if err := pause(ctx, severedFor); err != nil {
		return 0, err
	}
	for deadline := time.Now().Add(r.cfg.Deadline); w.newest().Held == 0 && time.Now().Before(deadline); {
		if err := pause(ctx, newsEvery); err != nil {
			return 0, err
		}
	}
	err = w.kill()
	return w.newest().Held, err
}

// evaluate waits for what is left to do, audits the store, and makes series and events of what was noted.
func (r *fig10Run) evaluate(ctx context.Context) error {
	settled, err := r.settle(ctx)
	if err != nil {
		return err
	}
	r.report.Settled = settled.Seconds()
	r.report.Shed = r.load.shed.Load()
	results := r.load.results()
	entries, err := r.audit(ctx, results)
	if err != nil {
		return err
	}
	m := momentsOf(results, entries, r.ground.workers)
	r.report.Buckets = seriesOf(r.begun, r.ended.Sub(r.begun), r.cfg.Bucket, m)
	for i := range r.report.Events {
		r.describe(&r.report.Events[i], results, m)
	}
	return nil
}

// momentsOf returns when things happened. Of a run that its worker could not tell of, as it was killed or did not hear of it
// either, that is when the observer was called.
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
		maps.Copy(ran, w.runs)
		w.mu.Unlock()
	}
	for id, e := range entries {
		if _, told := ran[id]; !told && e.runs > 0 {
			ran[id] = e.lastRun
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

func (r *fig10Run) describe(e *Fig10Event, results []transfer, m fig10Moments) {
	all, width := r.report.Buckets, r.cfg.Bucket
	fault := span{e.watched.from, time.Duration(math.Round(e.Ends * float64(time.Second)))}
	e.Commits = dipOf(all, width, e.steady, fault, e.watched.to, func(b Fig10Bucket) float64 { return b.Commits })
	e.Runs = dipOf(all, width, e.steady, fault, e.watched.to, func(b Fig10Bucket) float64 { return b.Runs })
	e.Backlog = backlogOf(all, width, e.steady, fault, e.watched.to)
	e.Gap = longestGap(r.begun, m.commits, e.watched).Seconds()
	for _, w := range m.waits {
		if at := w.until.Sub(r.begun); at >= e.watched.from && at < e.watched.to {
			e.Wait = max(e.Wait, w.lasted.Seconds())
		}
	}
	e.RolledForward, e.RolledBack, e.Conflicts = e.counts.RolledForward, e.counts.RolledBack, e.counts.Conflicts
	e.Refused, e.AnswersLost = e.counts.Refused, e.counts.Lost
	e.Errors = map[string]int64{}
	for _, t := range results {
		at := t.ended.Sub(r.begun)
		if t.err == nil || at < e.watched.from || at >= e.watched.to {
			continue
		}
		if name := sentinelOf(t.err); name == sentinels[0].name {
			e.Unknown++
		} else {
			e.Errors[name]++
		}
	}
}
