package observers

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// A worker exports what docs/TELEMETRY.md lists to the providers of Config, or else of its client.
// Attributes are outcomes, and names of observers, tables and columns.
const (
	scope = "github.com/gopercolator/percolator/observers"

	attrObserver = "percolator.observer"
	attrOutcome  = "percolator.outcome"
	attrSource   = "percolator.source"
)

// telemetry holds a worker's instruments. A nil tracer or meter records nothing.
type telemetry struct {
	tracer    trace.Tracer
	meter     metric.Meter
	durations metric.Float64Histogram
	sizes     metric.Int64Histogram
	// series is by outcome, made once; "" is without one.
	series map[*lane]map[string]metric.MeasurementOption
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
		w.telemetry.tracer = tracers.Tracer(scope)
	}
	if meters == nil {
		return nil
	}
	w.telemetry.meter = meters.Meter(scope)
	w.telemetry.durations, err = w.telemetry.meter.Float64Histogram("percolator.observer.run.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of runs, from Begin to the answer of Commit"), metric.WithExplicitBucketBoundaries(durationBuckets...))
	if err != nil {
		return err
	}
	w.telemetry.sizes, err = w.telemetry.meter.Int64Histogram("percolator.observer.batch.cells", metric.WithUnit("{cell}"),
		metric.WithDescription("Cells of a batch that committed"), metric.WithExplicitBucketBoundaries(sizeBuckets...))
	if err != nil {
		return err
	}
	w.telemetry.series = map[*lane]map[string]metric.MeasurementOption{}
	for _, l := range w.coverage.lanes {
		w.telemetry.series[l] = map[string]metric.MeasurementOption{"": metric.WithAttributes(attribute.String(attrObserver, l.name))}
		for _, out := range outcomes {
			w.telemetry.series[l][out] = metric.WithAttributes(attribute.String(attrObserver, l.name), attribute.String(attrOutcome, out))
		}
	}
	return nil
}

// startRun begins the span of a run. It has no parent: a notification does not say who changed the
// cell, and one run may handle many changes. Their commit timestamp links it to their commits.
func (w *Worker) startRun(ctx context.Context, r *run) (context.Context, trace.Span) {
	if w.telemetry.tracer == nil {
		return ctx, nil
	}
	newest := r.part[0].newest
	for _, tn := range r.part {
		newest = max(newest, tn.newest)
	}
	attributes := []attribute.KeyValue{
		attribute.String(attrObserver, r.lane.name), attribute.String("db.collection.name", r.lane.table),
		attribute.Int("percolator.attempt", r.part[0].attempt), attribute.Int64("percolator.notification_timestamp", int64(newest)),
	}
	if r.lane.batch {
		attributes = append(attributes, attribute.Int("percolator.cells", len(r.part)))
	}
	return w.telemetry.tracer.Start(ctx, "percolator.observer.run", trace.WithNewRoot(), trace.WithAttributes(attributes...))
}

// endRun measures a run.
func (w *Worker) endRun(ctx context.Context, r *run, span trace.Span, begun time.Time, outs []outcome) {
	name := nameOf(outs)
	if w.telemetry.durations != nil {
		w.telemetry.durations.Record(ctx, time.Since(begun).Seconds(), w.telemetry.series[r.lane][name])
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
func (w *Worker) countBatch(ctx context.Context, l *lane, cells int) {
	if l.batch && w.telemetry.sizes != nil {
		w.telemetry.sizes.Record(ctx, int64(cells), w.telemetry.series[l][""])
	}
}

// nameOf is the outcome of the observer's call, if there was one, among those of a run's cells.
func nameOf(outs []outcome) string {
	if outs == nil { // the observer ended its goroutine
		return outError
	}
	for _, out := range outs {
		if name := out.name(); name != outAcknowledged && !out.unread {
			return name
		}
	}
	return outAcknowledged
}

// name returns the outcome in metrics and spans.
func (out outcome) name() string {
	var panicked *PanicError
	switch {
	case out.committed:
		return outCommitted
	case out.snoozed:
		return outSnoozed
	case out.conflict:
		return outConflict
	case errors.As(out.err, &panicked):
		return outPanic
	case out.start != 0:
		return outAcknowledged
	}
	return outError
}
