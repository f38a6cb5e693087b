package percolator

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/tso"
)

// Client runs transactions on one Bigtable instance. A process needs one. All methods may be called
// concurrently. Close ends its goroutines and connections; a client that becomes unreachable
// without Close logs one warning (Config.Logger).
//
// Transactions, snapshots and workers stay usable even if the Client itself has become unreachable.
type Client struct {
	e      *engine.Engine
	dialed *tso.Client // the oracle, when NewClient dialed it

	stopReporting func() // and wait for it
}

// NewClient connects to the instance and to the oracle, reads the stored schema, and compares it
// with cfg.Schema. opts go to Google's Bigtable client. NewClient waits for at most 30 s.
//
// Errors: ErrInvalidArgument for a cfg that cannot work; ErrSchemaMismatch if the instance has no
// schema or another one; an error that names the endpoint if the instance or the oracle does not
// answer in time.
func NewClient(ctx context.Context, cfg Config, opts ...option.ClientOption) (*Client, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return nil, err
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, store.ConnectTimeout)
	defer cancel()
	endpoint := new(store.Endpoint)
	profiles := store.AppProfiles{Transactions: cfg.AppProfile, Background: cfg.BackgroundAppProfile}
	backend, err := store.ConnectWith(ctx, cfg.Project, cfg.Instance, profiles, cfg.Bigtable.google(), cfg.Bigtable.options(endpoint.Option(), opts))
	if err != nil {
		return nil, err
	}
	e, err := engine.Open(ctx, cfg.settings(), engine.Providers{Meter: cfg.MeterProvider, Tracer: cfg.TracerProvider}, backend)
	if err != nil {
		return nil, fmt.Errorf("%w (endpoint: %s)", err, endpoint)
	}
	c := &Client{e: e, stopReporting: func() {}}
	if err := c.connect(ctx, cfg); err != nil {
		e.Store.Close()
		c.hangUp()
		return nil, err
	}
	if !cfg.DisableReports {
		c.stopReporting = report(e)
	}
	runtime.AddCleanup(c, warnUnlessClosed, e)
	return c, nil
}

// report has a client report until stop is called.
func report(e *engine.Engine) (stop func()) {
	ctx, cancel := context.WithCancel(e.Store.Background)
	var running sync.WaitGroup
	running.Go(func() { membership.ReportClient(ctx, e) })
	return func() { cancel(); running.Wait() }
}

// warnUnlessClosed does not close the engine: a transaction or a worker may outlive the handle.
func warnUnlessClosed(e *engine.Engine) {
	if !e.Store.Closed.Load() {
		e.Config.Logger.Warn("a client was dropped without Close: its goroutines and connections stay until the process ends")
	}
}

// connect checks the schema and starts the engine with the oracle.
func (c *Client) connect(ctx context.Context, cfg Config) error {
	if err := c.e.Meta.CheckSchema(cfg.Schema); err != nil {
		return err
	}
	oracle := cfg.Oracle
	if oracle == nil {
		addr := os.Getenv("PERCOLATOR_TSO_ADDR")
		if addr == "" {
			return fmt.Errorf("percolator: %w: no oracle: set Config.Oracle or PERCOLATOR_TSO_ADDR=host:port of a running oracle", ErrInvalidArgument)
		}
		secure, err := tso.DialOptionsFromEnv(cfg.Logger)
		if err != nil {
			return fmt.Errorf("percolator: %w: oracle at %s: %w", ErrInvalidArgument, addr, err)
		}
		if c.dialed, err = tso.Dial(ctx, addr, secure...); err != nil {
			return fmt.Errorf("percolator: oracle at %s: %w", addr, retry.WithContext(ctx, err))
		}
		oracle = c.dialed
	}
	return c.e.Start(oracle)
}

func (c *Client) hangUp() {
	if c.dialed != nil {
		c.dialed.Close()
	}
}

// Schema returns the stored schema as this client knows it. The caller must not modify it.
func (c *Client) Schema() *Schema { return c.e.Meta.Catalog.Load().Schema }

// Stats returns the client's counters, read one after the other.
func (c *Client) Stats() Stats { return c.e.Stats() }

// Flush waits until phase two of everything committed before the call is done, and for at most a
// second more until workers in other processes were told of it, or until ctx ends. Phase two gives
// up a row that Bigtable has refused for 30 s: it logs the row and leaves its locks to lock
// resolution. Such a row counts as done.
func (c *Client) Flush(ctx context.Context) error {
	if err := retry.CheckContext(ctx); err != nil {
		return err
	}
	return c.e.Flush(ctx)
}

// Close finishes as Flush does, for at most 10 s when the store is down, and releases the
// connections.
// Lock resolution finishes the rest, so nothing is lost: an error of Close tells what was left to
// it or not released, and needs no answer. Later calls return ErrClosed. A second Close does
// nothing.
func (c *Client) Close() error {
	c.stopReporting()
	first, err := c.e.Close()
	if first { // a later one must not end the session of locks that this one turns into records
		c.hangUp()
	}
	return err
}

// Begin starts a transaction with one request to the oracle, or with none if Blind finds a
// prefetched timestamp.
func (c *Client) Begin(ctx context.Context, opts ...TxnOption) (*Txn, error) {
	tx, err := c.e.Commits.Begin(ctx, txnOptions(opts))
	return (*Txn)(tx), err
}

// Update runs f in a transaction, commits it, and returns the commit timestamp. After a conflict it
// runs f again in a new transaction, with jittered backoff, until ctx ends or MaxAttempts is
// reached. An error of f rolls the transaction back and is returned unchanged; an ErrConflict from
// f counts as a conflict. Update never retries ErrOutcomeUnknown. When ctx ends between attempts
// the error wraps both the last ErrConflict and the context's error. Whatever else f does (requests
// to other systems, variables that it changes) it does once per attempt, and an attempt may fail
// after f has returned nil.
//
// Conflicts lower how many attempts a client makes at once, and attempts that have conflicted on a
// cell run one after the other. Other Updates wait meanwhile (Stats.Contention). An Update that f
// calls with its own context, or one derived from it, never waits. If no attempt ends for a second
// because functions wait for other Updates, the limit doubles, but not while Bigtable refuses
// everything or most attempts are in Begin or Commit. An Update that has waited for most of its
// time, and has less left than two attempts take, ends with context.DeadlineExceeded and without an
// attempt.
func (c *Client) Update(ctx context.Context, f func(ctx context.Context, tx *Txn) error, opts ...TxnOption) (tso.Timestamp, error) {
	return c.e.Commits.Update(ctx, func(ctx context.Context, tx *commit.Txn) error { return f(ctx, (*Txn)(tx)) }, txnOptions(opts))
}

// Snapshot opens a snapshot of now, which costs a request to the oracle, or of an earlier time
// (AsOf, AsOfTimestamp, MaxStaleness, AtLeast). Errors: ErrInvalidArgument and ErrSnapshotTooOld as
// those options say.
func (c *Client) Snapshot(ctx context.Context, opts ...ReadOption) (*Snapshot, error) {
	s, err := c.e.Reads.Snapshot(ctx, readOptions(opts))
	return (*Snapshot)(s), err
}

// View calls f with a snapshot and returns f's error, or that of Snapshot. It never conflicts.
func (c *Client) View(ctx context.Context, f func(ctx context.Context, s *Snapshot) error, opts ...ReadOption) error {
	return c.e.Reads.View(ctx, func(ctx context.Context, s *reads.Snapshot) error { return f(ctx, (*Snapshot)(s)) }, readOptions(opts))
}

// Engine is the bridge for the other packages of this module. It is of no use outside it.
func (c *Client) Engine() *engine.Engine { return c.e }
