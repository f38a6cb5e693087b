package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/commit"
	"github.com/gopercolator/percolator/internal/dispatch"
	"github.com/gopercolator/percolator/internal/locks"
	"github.com/gopercolator/percolator/internal/meta"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/reads"
	"github.com/gopercolator/percolator/internal/store"
	"github.com/gopercolator/percolator/internal/telemetry"
	"github.com/gopercolator/percolator/internal/timestamps"
	"github.com/gopercolator/percolator/tso"
)

// closeTimeout bounds Close when the store is down.
const closeTimeout = 10 * time.Second

// Engine is a client's layers, wired together. Each layer calls only those above it in this list.
type Engine struct {
	Config    model.Settings
	providers Providers

	Store    *store.Store
	Bulk     *store.BulkWriter
	Clock    *timestamps.Source
	Meta     *meta.Watcher
	Dispatch *dispatch.Dispatcher
	Locks    *locks.Resolver
	Reads    *reads.Reader
	Commits  *commit.Committer

	metrics metric.Registration
	running sync.WaitGroup
}

// Providers are where an engine reports what it does; nil: nowhere.
type Providers struct {
	Meter  metric.MeterProvider
	Tracer trace.TracerProvider
}

// Open connects to the instance and reads what is stored about it.
func Open(ctx context.Context, cfg model.Settings, appProfile string, to Providers, opts []option.ClientOption) (*Engine, error) {
	where := new(store.Endpoint)
	bt, err := store.Connect(ctx, cfg.Project, cfg.Instance, appProfile, append([]option.ClientOption{where.Option()}, opts...))
	if err != nil {
		return nil, err
	}
	e := &Engine{Config: cfg, providers: to}
	if err := e.build(bt); err != nil {
		e.Store.Stop()
		bt.Close()
		return nil, err
	}
	if _, err := e.Meta.Refresh(ctx); err != nil {
		e.Abandon()
		return nil, fmt.Errorf("%w (endpoint: %s)", model.WithContext(ctx, err), where)
	}
	return e, nil
}

// build makes the layers, each of those that it calls.
func (e *Engine) build(backend store.Backend) (err error) {
	e.Store = store.New(context.Background(), backend, &telemetry.Counters{})
	e.Store.Trace = telemetry.NewSpans(e.providers.Tracer)
	if e.Store.Metrics, err = telemetry.NewInstruments(e.providers.Meter); err != nil {
		return fmt.Errorf("percolator: making metrics: %w", err)
	}
	e.Bulk = store.NewBulkWriter(e.Store.Background, e.Store)
	e.Clock = &timestamps.Source{Store: e.Store, Config: e.Config}
	e.Meta = &meta.Watcher{Store: e.Store, Clock: e.Clock, Config: e.Config}
	e.Dispatch = &dispatch.Dispatcher{Store: e.Store}
	e.Locks = &locks.Resolver{Store: e.Store, Clock: e.Clock, Meta: e.Meta, Dispatch: e.Dispatch, Config: e.Config}
	if e.Locks.Decided, err = lru.New[locks.TxnID, locks.TxnStatus](locks.DecidedRemembered); err != nil {
		return err
	}
	e.Reads = reads.New(e.Store, e.Clock, e.Meta, e.Locks, e.Config)
	e.Commits = &commit.Committer{Store: e.Store, Bulk: e.Bulk, Clock: e.Clock, Meta: e.Meta, Dispatch: e.Dispatch, Locks: e.Locks,
		Reads: e.Reads, Config: e.Config, Warm: commit.NewWarmGoroutines(e.Store.Background)}
	e.Commits.Recent.Seed = maphash.MakeSeed()
	return nil
}

// Start begins the work in the background, with the oracle from which timestamps come.
func (e *Engine) Start(oracle tso.Oracle) (err error) {
	e.Clock.Oracle = oracle
	e.Dispatch.Hints = dispatch.NewHinter(e.Config, oracle, e.Store.Count)
	if e.Locks.Sessions, err = locks.NewSessions(oracle); err != nil {
		return err
	}
	if e.metrics, err = e.registerMetrics(e.providers.Meter); err != nil {
		return fmt.Errorf("percolator: registering metrics: %w", err)
	}
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		e.Meta.Run(e.Store.Background)
	}()
	return nil
}

// Abandon releases the connections of an engine that was not started.
func (e *Engine) Abandon() {
	e.Store.Close()
}

// Close finishes phase two, for at most closeTimeout, and releases what the engine holds. A second
// call does nothing.
func (e *Engine) Close() error {
	if e.Store.Closed.Swap(true) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := e.Bulk.Flush(ctx)
	e.Store.Stop()
	e.running.Wait()
	e.Bulk.Close()
	e.Dispatch.Hints.Close()
	if e.metrics != nil {
		e.metrics.Unregister()
	}
	e.Locks.Sessions.Close(ctx)
	if cerr := e.Store.Close(); err == nil {
		err = cerr
	}
	return err
}

// OrClosed adds to an error that it came because the client was closed, if that is so.
func (e *Engine) OrClosed(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && e.Store.Closed.Load() && !errors.Is(err, model.ErrClosed) {
		return fmt.Errorf("percolator: %w: %w", model.ErrClosed, err)
	}
	return err
}

// WhileOpen is ctx until the client is closed.
func (e *Engine) WhileOpen(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(e.Store.Background, cancel)
	return ctx, func() { stop(); cancel() }
}

// Telemetry returns Config.MeterProvider and Config.TracerProvider, for packages that work with the
// client; either may be nil.
func (e *Engine) Telemetry() (metric.MeterProvider, trace.TracerProvider) {
	return e.providers.Meter, e.providers.Tracer
}
