package observers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/dispatch"
	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/scanning"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
)

// ErrStarted is what [Worker.Run] returns when it is called a second time. Make another worker.
var ErrStarted = errors.New("observers: the worker has been started before")

// Worker finds dirty cells and runs the observers of their columns (section 2.4 of the paper). It
// can run once. Its methods may be called concurrently.
type Worker struct {
	name     string // in the list of workers and in reports
	id       uint64 // in what it hands over
	engine   *engine.Engine
	cfg      Config
	log      *slog.Logger
	coverage *coverage
	queue    *queue
	lineage  *lineage
	columns  map[string][]*column // taken, by table
	rows     *scanning.RowLocks
	remote   *scanning.RemoteLocks
	places   *scanning.Places
	members  *partition // nil: this worker need not know the others
	owners   owners
	garbage  *admin.Collector
	sweeper  *admin.Sweeper
	counters workerCounters
	lag      lag
	inFlight []inFlight // of each goroutine that makes attempts
	stalls   stalls

	sightings *sightings

	instruments instruments
	ran         atomic.Bool
	// unreachable: no hint arrives here, nor what other workers pass on or hand over.
	unreachable atomic.Bool
}

// NewWorker returns a worker for the current contents of r. Errors: percolator.ErrInvalidArgument
// for an invalid registry or configuration, or a typed observer of a column that the schema
// declares with another type; percolator.ErrSchemaMismatch for an observer of a column that the
// schema does not observe, a column without an observer that this worker takes, or a table that an
// observer needs and the schema lacks.
func NewWorker(c *percolator.Client, r *Registry, cfg Config) (*Worker, error) {
	if c == nil || r == nil {
		return nil, fmt.Errorf("observers: %w: NewWorker needs a client and a registry", percolator.ErrInvalidArgument)
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	cfg.Logger = cmp.Or(cfg.Logger, c.Engine().Config.Logger)
	if cfg.RowLocks == nil && !cfg.DisableRowLocks {
		cfg.RowLocks, _ = c.Engine().Clock.Oracle.(coordination.RowLocks)
	}
	if cfg.DisableRowLocks {
		cfg.RowLocks = nil
	}
	registered, err := r.snapshot()
	if err != nil {
		return nil, err
	}
	cov, err := cover(c.Schema(), registered, cfg.Columns)
	if err := errors.Join(err, cov.checkTypes(c.Engine().Meta)); err != nil {
		return nil, err
	}
	operator := admin.New(c)
	garbage, err := operator.NewCollector(cfg.Collector)
	if err != nil {
		return nil, err
	}
	sweeper, err := operator.NewSweeper(model.SweepConfig{Interval: max(cfg.SweepInterval, 0)})
	if err != nil {
		return nil, err
	}
	w := &Worker{
		name:     uuid.NewString(),
		id:       rand.Uint64(),
		engine:   c.Engine(),
		garbage:  garbage,
		sweeper:  sweeper,
		cfg:      cfg,
		log:      cfg.Logger,
		coverage: cov,
		queue:    newQueue(cfg, cov.runners),
		lineage:  newLineage(),
		columns:  cov.byTable(),
		rows:     scanning.NewRowLocks(),
		inFlight: make([]inFlight, cfg.Concurrency),

		sightings: newSightings(),
		places:    scanning.NewPlaces(c.Engine().Reads.SampleRowKeys, time.Now, newRandom()),
	}
	w.remote = scanning.NewRemoteLocks(cfg.RowLocks, w.unfinished, time.Now)
	if _, ok := w.engine.Clock.Oracle.(tso.Blocks); ok {
		for _, rn := range cov.runners {
			if rn.together && !rn.batch && !rn.of.weak {
				rn.groups.form()
			}
		}
	}
	w.owners.columns = cov.ofOneWorker()
	if cfg.Partition || len(w.owners.columns) > 0 {
		w.members = newPartition(w, membership.Directory{Engine: w.engine})
	}
	if err := w.newTelemetry(); err != nil {
		return nil, fmt.Errorf("observers: making metrics: %w", err)
	}
	return w, nil
}

// Run looks for work in the journal, or searches the tables of an instance without one, takes
// notifications from its client, runs observers, and helps to remove old versions and to
// sweep until ctx ends. Then it starts nothing new, waits up to Config.DrainTimeout for runs
// in flight, cancels the rest, and returns nil. Waiting notifications stay in the tables. A second
// after the cancellation it abandons observers that ignore it. Errors: ErrStarted on a second call,
// percolator.ErrClosed once the client is closed, percolator.ErrSchemaMismatch once the instance
// below it was deleted or made anew, and those of registering metrics.
func (w *Worker) Run(ctx context.Context) error {
	if !w.ran.CompareAndSwap(false, true) {
		return ErrStarted
	}
	unregister, err := w.registerMetrics()
	if err != nil {
		return fmt.Errorf("observers: registering metrics: %w", err)
	}
	defer unregister()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// The runs outlive ctx by the drain timeout.
	runs, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()

	var goroutines, scanners sync.WaitGroup
	w.queue.open()
	stopDispatch := func() {}
	if w.unreachable.Store(w.cfg.DisableDispatch); !w.cfg.DisableDispatch {
		stopDispatch = w.engine.Dispatch.HandleNotify(w.dispatch)
		for columns := range slices.Chunk(w.heard(), dispatch.ColumnsAtOnce) {
			scanners.Go(func() { w.listen(ctx, columns) })
		}
		scanners.Go(func() { w.handOver(ctx) })
		if len(w.owners.columns) > 0 {
			scanners.Go(func() { w.listenOwned(ctx) })
		}
	}
	for i := range w.inFlight {
		goroutines.Add(1)
		go w.work(ctx, runs, &goroutines, &w.inFlight[i], nil)
	}
	scanners.Go(func() { w.watchOverdue(ctx) })
	scanners.Go(func() { w.find(ctx, stop) })
	scanners.Go(func() { w.remote.Run(ctx) })
	if w.members != nil {
		scanners.Go(func() { w.members.run(ctx) })
	}
	if w.cfg.ReportInterval > 0 {
		scanners.Go(func() { w.reporting(ctx) })
	}
	if !w.cfg.DisableCollection {
		scanners.Go(func() {
			if err := w.garbage.Run(ctx); err != nil {
				stop(err)
			}
		})
	}
	if w.cfg.SweepInterval >= 0 {
		scanners.Go(func() {
			if err := w.sweeper.Run(ctx); err != nil {
				stop(err)
			}
		})
	}
	<-ctx.Done()
	stopDispatch()
	w.queue.close()
	scanners.Wait()
	w.remote.Keep(ctx) // what was only queued here is for others to find
	w.drain(cancel, &goroutines)
	w.remote.Close(ctx)
	if err := context.Cause(ctx); errors.Is(err, percolator.ErrClosed) || errors.Is(err, percolator.ErrSchemaMismatch) {
		return fmt.Errorf("observers: %w", err)
	}
	return nil
}

// abandonGrace is how long Run waits for a run whose context it has cancelled.
const abandonGrace = time.Second

func (w *Worker) drain(cancel context.CancelFunc, goroutines *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { goroutines.Wait(); close(done) }()
	timer := time.NewTimer(w.cfg.DrainTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return
	case <-timer.C:
	}
	_, running := w.queue.sizes()
	w.log.Warn("observers: drain timeout, cancelling the runs in flight", "running", running)
	cancel()
	timer.Reset(abandonGrace)
	select {
	case <-done:
	case <-timer.C:
		_, running := w.queue.sizes()
		w.log.Warn("observers: left observers behind that ignore their context", "running", running, "observers", w.observersInFlight())
	}
}

// work runs observers until the queue closes, and before that what is left of current. ctx ends
// when the worker stops, runs when it has drained. at is for the attempts of this goroutine.
func (w *Worker) work(ctx, runs context.Context, goroutines *sync.WaitGroup, at *inFlight, current *run) {
	defer func() {
		// The observer ended its goroutine: runtime.Goexit, or FailNow of a test.
		if current != nil {
			w.endAttempt(runs, current, current.all(w.failed(current, errGoexit, stageObserver)))
			go w.work(ctx, runs, goroutines, at, current)
			return
		}
		goroutines.Done()
	}()
	for inARow := 0; ; {
		if current == nil {
			var open bool
			if current, open = w.queue.take(); !open {
				return
			}
			current.at = at
			_ = w.engine.Store.Pressure.GiveWay(ctx) // what was taken is performed, or put back, in any case
		}
		inconclusive := w.perform(ctx, runs, current)
		current = nil

		// While the store does not answer, every cell fails: slow all of them down together.
		if inARow++; !inconclusive {
			inARow = 0
		} else if retry.Sleep(ctx, w.queue.pauses.failure.pause(inARow)) != nil {
			return
		}
	}
}
