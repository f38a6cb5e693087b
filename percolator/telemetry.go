package percolator

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Metrics and spans are OpenTelemetry's, through the providers of Config and nothing global (docs/TELEMETRY.md lists them). Attributes
// come from small sets: tables and indexes of the schema, kinds of requests, outcomes. Never row keys, values, sessions or texts of errors.
//
// Counters and gauges are read when they are collected, so they cost nothing in between; only what has to be a histogram is
// recorded as it happens, and without a MeterProvider not even that.

// scope is the instrumentation scope of the metrics and spans.
const scope = "github.com/gopercolator/percolator/percolator"

// Names of attributes. Those with "db." and "error." are OpenTelemetry's semantic conventions.
const (
	attrSystem    = "db.system.name"
	attrTable     = "db.collection.name"
	attrOperation = "db.operation.name"
	attrError     = "error.type"
	attrOutcome   = "percolator.outcome"
	attrPhase     = "percolator.phase"
	attrKind      = "percolator.kind"

	systemName = "gcp.bigtable"
)

// conventionalBuckets are those that the conventions ask for in durations of database requests; ownBuckets are as fine as Stats.Latency.
var (
	conventionalBuckets = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10}
	countBuckets        = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}
)

func ownBuckets() []float64 {
	out := make([]float64, len(latencyBounds))
	for i, b := range latencyBounds {
		out[i] = b.Seconds()
	}
	return out
}

// Telemetry returns Config.MeterProvider and Config.TracerProvider, for packages that work with the client; either may be nil.
func (c *Client) Telemetry() (metric.MeterProvider, trace.TracerProvider) {
	return c.cfg.MeterProvider, c.cfg.TracerProvider
}

// instruments are the histograms of a client. A nil *instruments records nothing.
type instruments struct {
	requests     metric.Float64Histogram
	oracle       metric.Float64Histogram
	transactions metric.Float64Histogram
	phases       metric.Float64Histogram
	reads        metric.Float64Histogram
	lockWaits    metric.Float64Histogram
	attempts     metric.Int64Histogram
	batches      metric.Int64Histogram

	mu      sync.RWMutex
	options map[measured][]metric.RecordOption
}

// measured is what tells one series of a histogram from another. There are as many as tables times kinds times outcomes.
type measured struct{ key, table, kind, outcome string }

// newInstruments returns nil if there is nobody to record for.
func newInstruments(p metric.MeterProvider) (*instruments, error) {
	if p == nil {
		return nil, nil
	}
	meter := p.Meter(scope)
	var errs []error
	seconds := func(name, description string, buckets []float64) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(buckets...))
		errs = append(errs, err)
		return h
	}
	counts := func(name, unit, description string) metric.Int64Histogram {
		h, err := meter.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(countBuckets...))
		errs = append(errs, err)
		return h
	}
	own := ownBuckets()
	m := &instruments{
		options:      map[measured][]metric.RecordOption{},
		requests:     seconds("db.client.operation.duration", "Duration of requests to Bigtable, retries inside Google's client included", conventionalBuckets),
		oracle:       seconds("percolator.oracle.request.duration", "Time that a timestamp took to come from the oracle", own),
		transactions: seconds("percolator.transaction.duration", "Time from Begin to the answer of Commit, of transactions that write", own),
		phases:       seconds("percolator.commit.phase.duration", "Duration of the steps of a commit", own),
		reads:        seconds("percolator.read.duration", "Duration of reads that the snapshot could not answer itself", own),
		lockWaits:    seconds("percolator.lock.wait.duration", "Time that a read took to get past a lock", own),
		attempts:     counts("percolator.transaction.attempts", "{attempt}", "Attempts that an Update took"),
		batches:      counts("percolator.batch.rows", "{row}", "Rows that travelled in one batched request"),
	}
	return m, errors.Join(errs...)
}

// with returns the attributes of a series; they are made once.
func (m *instruments) with(k measured) []metric.RecordOption {
	m.mu.RLock()
	opts, ok := m.options[k]
	m.mu.RUnlock()
	if ok {
		return opts
	}
	var attrs []attribute.KeyValue
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, attribute.String(key, value))
		}
	}
	add(attrTable, k.table)
	switch k.key {
	case attrOperation:
		add(attrSystem, systemName)
		add(attrOperation, k.kind)
		add(attrError, k.outcome)
	case attrPhase:
		add(attrPhase, k.kind)
		add(attrError, k.outcome)
	case attrKind:
		add(attrKind, k.kind)
		add(attrError, k.outcome)
	default:
		add(attrOutcome, k.outcome)
	}
	opts = []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attrs...))}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.options[k] = opts
	return opts
}

func (m *instruments) request(ctx context.Context, op operation, table string, d time.Duration, err error) {
	if m != nil {
		m.requests.Record(ctx, d.Seconds(), m.with(measured{attrOperation, table, op.String(), statusOf(err)})...)
	}
}

func (m *instruments) oracleRequest(ctx context.Context, d time.Duration, err error) {
	if m != nil {
		m.oracle.Record(ctx, d.Seconds(), m.with(measured{key: attrKind, outcome: statusOf(err)})...)
	}
}

func (m *instruments) transaction(ctx context.Context, d time.Duration, err error) {
	if m != nil {
		m.transactions.Record(ctx, d.Seconds(), m.with(measured{outcome: endOf(err)})...)
	}
}

func (m *instruments) attempted(ctx context.Context, n int, err error) {
	if m != nil {
		m.attempts.Record(ctx, int64(n), m.with(measured{outcome: endOf(err)})...)
	}
}

func (m *instruments) phase(ctx context.Context, name string, begun time.Time, err error) {
	if m != nil {
		m.phases.Record(ctx, time.Since(begun).Seconds(), m.with(measured{key: attrPhase, kind: name, outcome: errorType(err)})...)
	}
}

func (m *instruments) read(ctx context.Context, op operation, table string, d time.Duration, err error) {
	if m != nil {
		m.reads.Record(ctx, d.Seconds(), m.with(measured{attrKind, table, op.String(), errorType(err)})...)
	}
}

func (m *instruments) lockWait(ctx context.Context, table string, d time.Duration, err error) {
	if m != nil {
		m.lockWaits.Record(ctx, d.Seconds(), m.with(measured{key: attrKind, table: table, outcome: errorType(err)})...)
	}
}

// batch records how many rows travel together; op is opReadRows or opMutateRows.
func (m *instruments) batch(ctx context.Context, op operation, table string, rows int) {
	if m != nil {
		m.batches.Record(ctx, int64(rows), m.with(measured{attrKind, table, op.String(), ""})...)
	}
}

// endOf names how a transaction ended, as Stats counts it.
func endOf(err error) string {
	switch {
	case err == nil:
		return "committed"
	case errors.Is(err, ErrOutcomeUnknown):
		return "unknown"
	case errors.Is(err, ErrConflict):
		return "conflict"
	}
	return "aborted"
}

// statusOf names the failure of a request by gRPC's code; "" is none.
func statusOf(err error) string {
	if err == nil {
		return ""
	}
	if code := status.Code(err); code != codes.Unknown {
		return code.String()
	}
	return errorType(err)
}

// errorType names a failure without its text, which may name a row; "" is none. An error of the caller's own is "_OTHER", as the
// conventions have it.
func errorType(err error) string {
	if err == nil {
		return ""
	}
	for _, known := range []struct {
		err  error
		name string
	}{
		{ErrOutcomeUnknown, "outcome_unknown"}, {ErrConflict, "conflict"}, {ErrLocked, "locked"}, {ErrSnapshotTooOld, "snapshot_too_old"},
		{ErrNotFound, "not_found"}, {ErrExists, "exists"}, {ErrUnique, "unique"}, {ErrSchemaMismatch, "schema_mismatch"},
		{ErrTooLarge, "too_large"}, {ErrInvalidArgument, "invalid_argument"}, {ErrTxnDone, "txn_done"}, {ErrCorrupt, "corrupt"},
		{ErrClosed, "closed"}, {context.Canceled, "canceled"}, {context.DeadlineExceeded, "timeout"},
	} {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	if code := status.Code(err); code != codes.Unknown {
		return code.String()
	}
	return "_OTHER"
}
