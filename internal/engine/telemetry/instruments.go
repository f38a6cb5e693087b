// Package telemetry counts, measures and traces what a client does, for Stats and for
// OpenTelemetry. It stands below every layer and calls none.
package telemetry

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
)

// Metrics and spans go to the OpenTelemetry providers of Config and to nothing global
// (docs/TELEMETRY.md lists them). Attributes come from small sets: tables and indexes of the
// schema, kinds of requests, outcomes. They are never row keys, values, sessions or texts of
// errors.
//
// Counters and gauges are read when they are collected, so they cost nothing in between. Only
// histograms are recorded as things happen, and without a MeterProvider not even those.

// Scope is the instrumentation scope of the metrics and spans.
const Scope = "github.com/gopercolator/percolator/percolator"

// Names of attributes. Those with "db." and "error." are OpenTelemetry's semantic conventions.
const (
	attrSystem    = "db.system.name"
	attrTable     = "db.collection.name"
	attrOperation = "db.operation.name"
	attrError     = "error.type"
	AttrOutcome   = "percolator.outcome"
	attrPhase     = "percolator.phase"
	attrKind      = "percolator.kind"

	systemName = "gcp.bigtable"
)

// conventionalBuckets are the buckets that the conventions ask for in durations of database
// requests. ownBuckets are as fine as Stats.Latency.
var (
	conventionalBuckets = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10}
	ownBuckets          = ordered.Map(model.LatencyBounds[:], time.Duration.Seconds)
	countBuckets        = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}
)

// Instruments are the histograms of a client. A nil *Instruments records nothing. Methods may be
// called concurrently.
type Instruments struct {
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

// measured tells one series of a histogram from another. There are as many as tables times kinds
// times outcomes.
type measured struct{ key, table, kind, outcome string }

// NewInstruments returns nil without a MeterProvider.
func NewInstruments(p metric.MeterProvider) (*Instruments, error) {
	if p == nil {
		return nil, nil
	}
	meter := p.Meter(Scope)
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
	own := ownBuckets
	m := &Instruments{
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

// with returns the attributes of a series, which it makes once.
func (m *Instruments) with(k measured) []metric.RecordOption {
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
		add(AttrOutcome, k.outcome)
	}
	opts = []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attrs...))}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.options[k] = opts
	return opts
}

// Request records a request to Bigtable.
func (m *Instruments) Request(ctx context.Context, op Operation, table string, d time.Duration, err error) {
	if m != nil {
		m.requests.Record(ctx, d.Seconds(), m.with(measured{attrOperation, table, op.String(), statusOf(err)})...)
	}
}

// OracleRequest records a request to the oracle.
func (m *Instruments) OracleRequest(ctx context.Context, d time.Duration, err error) {
	if m != nil {
		m.oracle.Record(ctx, d.Seconds(), m.with(measured{key: attrKind, outcome: statusOf(err)})...)
	}
}

// Transaction records a transaction that writes, from Begin to the answer of Commit.
func (m *Instruments) Transaction(ctx context.Context, d time.Duration, err error) {
	if m != nil {
		m.transactions.Record(ctx, d.Seconds(), m.with(measured{outcome: endOf(err)})...)
	}
}

// Attempted records how many attempts an Update took.
func (m *Instruments) Attempted(ctx context.Context, n int, err error) {
	if m != nil {
		m.attempts.Record(ctx, int64(n), m.with(measured{outcome: endOf(err)})...)
	}
}

// Phase records a step of a commit that began at started.
func (m *Instruments) Phase(ctx context.Context, name string, started time.Time, err error) {
	if m != nil {
		m.phases.Record(ctx, time.Since(started).Seconds(), m.with(measured{key: attrPhase, kind: name, outcome: errorType(err)})...)
	}
}

// Read records a read that the snapshot could not answer itself.
func (m *Instruments) Read(ctx context.Context, op Operation, table string, d time.Duration, err error) {
	if m != nil {
		m.reads.Record(ctx, d.Seconds(), m.with(measured{attrKind, table, op.String(), errorType(err)})...)
	}
}

// LockWait records how long a read took to get past a lock.
func (m *Instruments) LockWait(ctx context.Context, table string, d time.Duration, err error) {
	if m != nil {
		m.lockWaits.Record(ctx, d.Seconds(), m.with(measured{key: attrKind, table: table, outcome: errorType(err)})...)
	}
}

// Batch records how many rows are sent together; op is OpReadRows or OpMutateRows.
func (m *Instruments) Batch(ctx context.Context, op Operation, table string, rows int) {
	if m != nil {
		m.batches.Record(ctx, int64(rows), m.with(measured{attrKind, table, op.String(), ""})...)
	}
}

// endOf names how a transaction ended, as Stats counts it.
func endOf(err error) string {
	switch {
	case err == nil:
		return "committed"
	case errors.Is(err, model.ErrOutcomeUnknown):
		return "unknown"
	case errors.Is(err, model.ErrConflict):
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

// errorType names a failure without its text, which may name a row; "" is none. An error of the
// caller's own is "_OTHER", as the conventions have it.
func errorType(err error) string {
	if err == nil {
		return ""
	}
	if name := sentinelOf(err); name != "" {
		return name
	}
	if code := status.Code(err); code != codes.Unknown {
		return code.String()
	}
	return otherError
}
