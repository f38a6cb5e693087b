// Package engine wires a client's layers together, and opens and closes them. It stands on all of
// them: store, timestamps, meta, dispatch, locks, reads and commit. Package percolator is thin over
// it; percolator/admin works on the layers that it exports.
package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/dispatch"
	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/settle"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/internal/engine/timestamps"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// closeTimeout bounds Close when the store is down.
const closeTimeout = 10 * time.Second

// Engine is a client's layers, wired together. Each layer calls only those above it in this list.
type Engine struct {
	// ID names the client in reports, and Began says since when it counts. WorkerReported is when a
	// worker of the client stored a report last.
	ID             string
	Began          time.Time
	WorkerReported atomic.Pointer[time.Time]

	Config    store.Settings
	providers Providers

	Store    *store.Store
	Bulk     *store.BulkWriter
	Sweeping *store.BulkWriter // for background work; callers that add to it wait
	Clock    *timestamps.Source
	Meta     *meta.Watcher
	Dispatch *dispatch.Dispatcher
	Locks    *locks.Resolver
	Reads    *reads.Reader
	Journal  *journal.Appender
	Looker   *settle.Looker
	Commits  *commit.Committer

	// Loops, if set, hears of loops of observers. The client's maker sets it before anything else.
	Loops *Loops

	owner *settle.Owner
	// settling runs the owner until stopSettling.
	settling     sync.WaitGroup
	stopSettling context.CancelFunc

	metrics metric.Registration
	running sync.WaitGroup
}

// Providers are where an engine reports what it does; a nil one gets nothing.
type Providers struct {
	Meter  metric.MeterProvider
	Tracer trace.TracerProvider
}

// Open puts an engine on a store, which it owns from then on, and reads the meta row. The caller
// calls Start next, or Abandon.
func Open(ctx context.Context, cfg store.Settings, to Providers, backend store.Backend) (*Engine, error) {
	e := &Engine{ID: uuid.NewString(), Began: time.Now(), Config: cfg, providers: to}
	if err := e.build(backend); err != nil {
		e.Store.Stop()
		backend.Close()
		return nil, err
	}
	if _, err := e.Meta.Refresh(ctx); err != nil {
		e.Store.Close()
		return nil, retry.WithContext(ctx, err)
	}
	return e, nil
}

// build makes the layers, each after those that it calls.
func (e *Engine) build(backend store.Backend) (err error) {
	e.Store = store.New(context.Background(), backend, &telemetry.Counters{})
	e.Store.Trace = telemetry.NewSpans(e.providers.Tracer)
	e.Store.Outage = &store.Outage{What: "the store", Logger: e.Config.Logger, Over: e.Store.Background}
	e.Store.OracleOutage = &store.Outage{What: "the oracle", Logger: e.Config.Logger, Over: e.Store.Background}
	e.Store.Pressure.Logger, e.Store.Pressure.Over = e.Config.Logger, e.Store.Background
	e.Store.Listen(e.Config.Logger)
	if e.Store.Metrics, err = telemetry.NewInstruments(e.providers.Meter); err != nil {
		return fmt.Errorf("percolator: making metrics: %w", err)
	}
	e.Bulk = store.NewBulkWriter(e.Store.Background, e.Store)
	e.Sweeping = store.NewBulkWriter(store.InBackground(e.Store.Background), e.Store)
	e.Clock = &timestamps.Source{Store: e.Store, Config: e.Config}
	e.Meta = &meta.Watcher{Store: e.Store, Clock: e.Clock, Config: e.Config}
	e.Dispatch = &dispatch.Dispatcher{Store: e.Store}
	e.Locks = &locks.Resolver{Store: e.Store, Clock: e.Clock, Meta: e.Meta, Dispatch: e.Dispatch, Config: e.Config}
	if e.Locks.Decided, err = lru.New[locks.TxnID, locks.TxnStatus](locks.DecidedRemembered); err != nil {
		return err
	}
	e.Reads = reads.New(e.Store, e.Clock, e.Meta, e.Locks, e.Config)
	e.Journal = journal.NewAppender(e.Store.Background, e.Store, func(ctx context.Context) string {
		// The rest of the lifetime is for the entry.
		ctx, cancel := context.WithTimeout(ctx, e.Store.Timing.RequestLifetime/4)
		defer cancel()
		return e.Locks.Sessions.Await(ctx)
	})
	e.Commits = &commit.Committer{Journal: e.Journal, Store: e.Store, Bulk: e.Bulk, Clock: e.Clock, Meta: e.Meta, Dispatch: e.Dispatch, Locks: e.Locks,
		Reads: e.Reads, Config: e.Config, Warm: commit.NewWarmGoroutines(e.Store.Background)}
	e.Looker = &settle.Looker{Store: e.Store, Clock: e.Clock, Meta: e.Meta, Locks: e.Locks, Dispatch: e.Dispatch, Config: e.Config,
		Forget: e.Commits.ForgetObserverStates}
	e.owner = settle.NewOwner(e.Looker, e.Journal)
	e.Commits.Recent.Seed = maphash.MakeSeed()
	return nil
}

// Start begins the background work, with the oracle that gives timestamps.
func (e *Engine) Start(oracle tso.Oracle) (err error) {
	e.Clock.Oracle = oracle
	e.Dispatch.Hints = dispatch.NewHinter(e.Config, oracle, e.Store.Count)
	if e.Locks.Sessions, err = locks.NewSessions(oracle); err != nil {
		return err
	}
	if e.metrics, err = e.registerMetrics(e.providers.Meter); err != nil {
		return fmt.Errorf("percolator: registering metrics: %w", err)
	}
	e.running.Go(func() { e.Meta.Run(e.Store.Background) })
	settling, stop := context.WithCancel(e.Store.Background)
	e.stopSettling = stop
	e.settling.Go(func() { e.owner.Run(settling) })
	return nil
}

// hintsTimeout bounds how long a flush waits for hints: whoever misses one scans.
const hintsTimeout = time.Second

// Flush waits for phase two of everything committed so far, and until workers elsewhere were told.
func (e *Engine) Flush(ctx context.Context) error {
	err := e.Bulk.Flush(ctx)
	ctx, cancel := context.WithTimeout(ctx, hintsTimeout)
	defer cancel()
	e.Dispatch.Hints.Flush(ctx)
	return err
}

// Close finishes phase two, for at most closeTimeout, and releases what the engine holds. Only the
// first call does, also while it has not returned.
func (e *Engine) Close() (first bool, err error) {
	if e.Store.Closed.Swap(true) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err = e.Flush(ctx)
	e.stopSettling()
	e.settling.Wait()
	e.owner.Close(ctx)
	e.Store.Stop()
	e.running.Wait()
	e.Bulk.Close()
	e.Journal.Close()
	e.Sweeping.Close()
	e.Dispatch.Hints.Close()
	if e.metrics != nil {
		e.metrics.Unregister()
	}
	e.Locks.Sessions.Close(ctx)
	if cerr := e.Store.Close(); err == nil {
		err = cerr
	}
	return true, err
}

// OrClosed adds ErrClosed to an error that came because the client was closed.
func (e *Engine) OrClosed(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && e.Store.Closed.Load() && !errors.Is(err, model.ErrClosed) {
		return fmt.Errorf("percolator: %w: %w", model.ErrClosed, err)
	}
	return err
}

// WhileOpen is ctx, which also ends when the client is closed. The caller calls the function that
// it returns when it is done.
func (e *Engine) WhileOpen(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(e.Store.Background, cancel)
	return ctx, func() { stop(); cancel() }
}

// Stats are the counters of the client, and how its Updates queue.
func (e *Engine) Stats() model.Stats {
	s := e.Store.Count.Read()
	s.Contention = e.Commits.Contention()
	s.Overloaded = e.Store.Pressure.Tables()
	return s
}

// Telemetry returns Config.MeterProvider and Config.TracerProvider, for packages that work with the
// client. Either may be nil.
func (e *Engine) Telemetry() (metric.MeterProvider, trace.TracerProvider) {
	return e.providers.Meter, e.providers.Tracer
}

// Loops is how a test hears of observers whose runs cause each other without end (package
// observers): nothing fails, so the test would wait for ever.
type Loops struct {
	// Report hears once of each loop that a worker of the client finds. It must not block.
	Report func(observer string, c model.Cell, runs int)
	// Failed ends when the test has failed for a loop. Its cause says so.
	Failed context.Context
}

// UntilLoop is ctx, which also ends when the client's test has failed for a loop. The caller calls
// the function that it returns when it is done.
func (e *Engine) UntilLoop(ctx context.Context) (context.Context, func()) {
	if e.Loops == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(e.Loops.Failed, func() { cancel(context.Cause(e.Loops.Failed)) })
	return ctx, func() { stop(); cancel(nil) }
}
