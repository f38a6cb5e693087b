package percolator

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// scope is the instrumentation scope of the metrics and spans.
const scope = "github.com/gopercolator/percolator/percolator"

// registerMetrics exports the counters. No row keys, no values: only kinds.
func registerMetrics(p metric.MeterProvider, n *counters) (metric.Registration, error) {
	m := p.Meter(scope)
	txns, err1 := m.Int64ObservableCounter("percolator.transactions", metric.WithUnit("{transaction}"), metric.WithDescription("Transactions by outcome"))
	locks, err2 := m.Int64ObservableCounter("percolator.locks.resolved", metric.WithUnit("{lock}"), metric.WithDescription("Locks of other transactions settled, by result"))
	reqs, err3 := m.Int64ObservableCounter("percolator.requests", metric.WithUnit("{request}"), metric.WithDescription("Requests to Bigtable and the oracle, by kind"))
	notes, err4 := m.Int64ObservableCounter("percolator.notifications", metric.WithUnit("{notification}"), metric.WithDescription("Notify cells written"))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	label := func(key, value string) metric.MeasurementOption {
		return metric.WithAttributes(attribute.String(key, value))
	}
	return m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := n.read()
		o.ObserveInt64(txns, s.Transactions, label("outcome", "committed"))
		o.ObserveInt64(txns, s.Conflicts, label("outcome", "conflict"))
		o.ObserveInt64(txns, s.Aborts, label("outcome", "aborted"))
		o.ObserveInt64(locks, s.RolledForward, label("result", "rolled_forward"))
		o.ObserveInt64(locks, s.RolledBack, label("result", "rolled_back"))
		o.ObserveInt64(notes, s.Notifications)
		for kind, v := range s.Requests {
			o.ObserveInt64(reqs, v, label("kind", kind))
		}
		return nil
	}, txns, locks, reqs, notes)
}

// spans makes the client's trace spans.
type spans struct{ tracer trace.Tracer }

func newSpans(p trace.TracerProvider) spans { return spans{p.Tracer(scope)} }

func (s spans) start(ctx context.Context, name string) (context.Context, trace.Span) {
	return s.tracer.Start(ctx, name)
}

// failed marks a span; the message of the error stays out of it, as it names rows.
func (s spans) failed(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
}
