package observers

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	metrics "github.com/gopercolator/percolator/internal/engine/telemetry"
)

// A worker exports what docs/TELEMETRY.md lists to the providers of Config, or else of its client.
// Attributes are outcomes, and names of observers, tables and columns.
const (
	scope = "github.com/gopercolator/percolator/observers"

	attrObserver = "percolator.observer"
	attrOutcome  = "percolator.outcome"
	attrSource   = "percolator.source"
)

// instruments are a worker's. A nil tracer or meter records nothing.
type instruments struct {
	tracer    trace.Tracer
	meter     metric.Meter
	durations metric.Float64Histogram
	sizes     metric.Int64Histogram
	// series is by outcome, made once; "" is without one.
	series map[*runner]map[string]metric.MeasurementOption
}

// Outcomes of a run, in metrics and spans.
const (
	outCommitted    = "committed"
	outAcknowledged = "acknowledged"
	outSnoozed      = "snoozed"
	outConflict     = "conflict"
	outPanic        = "panic"
	outError        = "error"
)

var outcomes = []string{outCommitted, outAcknowledged, outSnoozed, outConflict, outPanic, outError}

// durationBuckets, in seconds, reach from one transaction to the default Timeout.
var durationBuckets = []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30}

// sizeBuckets, in cells, reach to MaxBatchCells.
var sizeBuckets = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, MaxBatchCells}

// newTelemetry makes the instruments.
func (w *Worker) newTelemetry() (err error) {
	meters, tracers := w.engine.Telemetry()
	if w.cfg.MeterProvider != nil {
		meters = w.cfg.MeterProvider
	}
	if w.cfg.TracerProvider != nil {
		tracers = w.cfg.TracerProvider
	}
	if tracers != nil {
		w.instruments.tracer = tracers.Tracer(scope)
	}
	if meters == nil {
		return nil
	}
	w.instruments.meter = meters.Meter(scope)
	w.instruments.durations, err = w.instruments.meter.Float64Histogram("percolator.observer.run.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of runs, from Begin to the answer of Commit"), metric.WithExplicitBucketBoundaries(durationBuckets...))
	if err != nil {
		return err
	}
	w.instruments.sizes, err = w.instruments.meter.Int64Histogram("percolator.observer.batch.cells", metric.WithUnit("{cell}"),
		metric.WithDescription("Cells of a batch that committed"), metric.WithExplicitBucketBoundaries(sizeBuckets...))
	if err != nil {
		return err
	}
	w.instruments.series = map[*runner]map[string]metric.MeasurementOption{}
	for _, rn := range w.coverage.runners {
		w.instruments.series[rn] = map[string]metric.MeasurementOption{"": metric.WithAttributes(attribute.String(attrObserver, rn.name))}
		for _, out := range outcomes {
			w.instruments.series[rn][out] = metric.WithAttributes(attribute.String(attrObserver, rn.name), attribute.String(attrOutcome, out))
		}
	}
	return nil
}

// startSpan starts the span of an attempt. It has no parent: a notification does not say who
// changed the cell, and one run may handle many changes. Their commit timestamp links it to their
// commits.
func (w *Worker) startSpan(ctx context.Context, r *run) (context.Context, trace.Span) {
	if w.instruments.tracer == nil {
		return ctx, nil
	}
	newest := r.attempt[0].newest
	for _, j := range r.attempt {
		newest = max(newest, j.newest)
	}
	attributes := []attribute.KeyValue{
		attribute.String(attrObserver, r.runner.name), attribute.String("db.collection.name", r.runner.table),
		attribute.Int("percolator.attempt", r.attempt[0].number), attribute.Int64("percolator.notification_timestamp", int64(newest)),
	}
	if r.runner.batch {
		attributes = append(attributes, attribute.Int("percolator.cells", len(r.attempt)))
	}
	return w.instruments.tracer.Start(ctx, "percolator.observer.run", trace.WithNewRoot(), trace.WithAttributes(attributes...))
}

// endSpan measures an attempt.
func (w *Worker) endSpan(ctx context.Context, r *run, span trace.Span, started time.Time, outs []outcome) {
	name := nameOf(outs)
	if w.instruments.durations != nil {
		w.instruments.durations.Record(ctx, time.Since(started).Seconds(), w.instruments.series[r.runner][name])
	}
	if span == nil {
		return
	}
	span.SetAttributes(attribute.String(attrOutcome, name))
	if name != outCommitted && name != outAcknowledged && name != outSnoozed {
		span.SetStatus(codes.Error, "") // its text may name a row
	}
	span.End()
}

// countBatch measures the size of a batch that committed.
func (w *Worker) countBatch(ctx context.Context, rn *runner, cells int) {
	if rn.batch && w.instruments.sizes != nil {
		w.instruments.sizes.Record(ctx, int64(cells), w.instruments.series[rn][""])
	}
}

// nameOf is the outcome of the observer's call, if there was one, among those of a run's cells.
func nameOf(outs []outcome) string {
	if outs == nil { // the observer ended its goroutine
		return outError
	}
	for _, out := range outs {
		if name := out.name(); name != outAcknowledged && out.state != runUnread {
			return name
		}
	}
	return outAcknowledged
}

// name returns the outcome in metrics and spans.
func (out outcome) name() string {
	var panicked *PanicError
	switch {
	case out.state == runCommitted:
		return outCommitted
	case out.done():
		return outAcknowledged
	case out.state == runSnoozed:
		return outSnoozed
	case out.state == runConflicted:
		return outConflict
	case errors.As(out.err, &panicked):
		return outPanic
	}
	return outError
}

// registerMetrics exports Stats while the worker runs.
func (w *Worker) registerMetrics() (unregister func(), err error) {
	if w.instruments.meter == nil {
		return func() {}, nil
	}
	o := &metrics.Gauges{Meter: w.instruments.meter}
	registration, err := o.Register(w.runMetrics(o), w.findMetrics(o))
	if err != nil {
		return nil, err
	}
	return func() { _ = registration.Unregister() }, nil
}

func (w *Worker) runMetrics(o *metrics.Gauges) func(metric.Observer) {
	runs := o.Counter("percolator.observer.runs", "{run}", "Runs of an observer, by outcome")
	retries := o.Counter("percolator.observer.retries", "{run}", "Calls of an observer after one that failed for the same change")
	parkings := o.Counter("percolator.observer.parked", "{cell}", "Times that this worker gave up on the observer of a cell")
	running := o.Gauge("percolator.observer.running", "{run}", "Runs in flight")
	overdue := o.Gauge("percolator.observer.overdue", "{run}", "Runs that have not returned 5 s after their timeout, as the observer ignores its context")
	queued := o.Gauge("percolator.observer.queue.cells", "{cell}", "Cells of the observer's column that wait for their run or their pause")
	return func(to metric.Observer) {
		sizes, late := w.queue.runnerSizes(w.coverage), w.overdueRuns()
		for _, rn := range w.coverage.runners {
			s, n := w.instruments.series[rn], rn.counters.load()
			to.ObserveInt64(runs, n.Runs, s[outCommitted])
			to.ObserveInt64(runs, n.Acknowledged, s[outAcknowledged])
			to.ObserveInt64(runs, n.Snoozes, s[outSnoozed])
			to.ObserveInt64(runs, n.Conflicts, s[outConflict])
			to.ObserveInt64(runs, n.Panics, s[outPanic])
			to.ObserveInt64(runs, n.Errors, s[outError])
			to.ObserveInt64(retries, n.Retries, s[""])
			to.ObserveInt64(parkings, n.Parked, s[""])
			to.ObserveInt64(running, int64(sizes[rn].running), s[""])
			to.ObserveInt64(overdue, int64(late[rn]), s[""])
			to.ObserveInt64(queued, int64(sizes[rn].queued), s[""])
		}
	}
}

func (w *Worker) findMetrics(o *metrics.Gauges) func(metric.Observer) {
	received := o.Counter("percolator.notifications.received", "{notification}", "Notifications taken up, by where they were heard of")
	dropped := o.Counter("percolator.notifications.dropped", "{notification}", "Notifications of the own client for which there was no room; the scan finds them, or the client by its journal")
	handed := o.Counter("percolator.notifications.handed_over", "{cell}", "Cells of the backlog of this worker that others have taken, or itself, if it had asked before")
	age := o.Seconds("percolator.notifications.oldest.age", "Age of the oldest unprocessed notification that scanners or adopter have met, parked ones apart")
	parked := o.Gauge("percolator.notifications.parked", "{cell}", "Cells that only wait for a parked observer, as the scanners met them in their last pass or the journal lists them")
	stuck := o.Seconds("percolator.lock.expired.age", "How long the oldest lock that scanners or adopter have met has been past its time to live")
	rounds := o.Counter("percolator.scan.rounds", "{round}", "Passes of a scanner through all tables")
	rows := o.Counter("percolator.scan.rows", "{row}", "Dirty or locked rows that scanners read")
	teleports := o.Counter("percolator.scan.teleports", "{teleport}", "Times that a scanner met another one and went elsewhere")
	corrupt := o.Counter("percolator.scan.corrupt", "{cell}", "Cells that scanners could not decode, each time that they met them")
	source := func(name string) metric.ObserveOption {
		return metric.WithAttributes(attribute.String(attrSource, name))
	}
	scan, dispatch, hint, handOver := source("scan"), source("dispatch"), source("hint"), source("handover")
	n := &w.counters
	return func(to metric.Observer) {
		to.ObserveInt64(received, n.found.Load(), scan)
		to.ObserveInt64(received, n.dispatched.Load(), dispatch)
		to.ObserveInt64(received, n.hinted.Load(), hint)
		to.ObserveInt64(received, n.received.Load(), handOver)
		to.ObserveInt64(handed, n.handedOver.Load())
		to.ObserveInt64(dropped, n.dropped.Load())
		seen := w.behind()
		to.ObserveFloat64(age, seen.notification.Seconds())
		to.ObserveInt64(parked, int64(seen.parked))
		to.ObserveFloat64(stuck, seen.lock.Seconds())
		to.ObserveInt64(rounds, n.scans.Searches.Load())
		to.ObserveInt64(rows, n.scans.Rows.Load())
		to.ObserveInt64(teleports, n.scans.Teleports.Load())
		to.ObserveInt64(corrupt, n.corrupt.Load())
	}
}

// runnerSize is what an observer has in hand, in cells.
type runnerSize struct{ queued, running int }

// runnerSizes counts the runs of each observer, and the waiting cells of its column.
func (q *queue) runnerSizes(cov *coverage) map[*runner]runnerSize {
	q.mu.Lock()
	defer q.mu.Unlock()
	sizes := make(map[*runner]runnerSize, len(cov.runners))
	for _, col := range cov.taken {
		waiting := len(col.cells)
		for _, rn := range col.runners {
			waiting -= rn.running
		}
		for _, rn := range col.runners {
			sizes[rn] = runnerSize{queued: waiting, running: rn.active}
		}
	}
	return sizes
}
