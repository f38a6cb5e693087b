package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Spans makes the client's trace spans: one for each call of the application's, and below it one
// for each step of the protocol. It makes none for single requests: a transaction may send
// thousands, and gRPC's own tracing shows them (docs/TELEMETRY.md).
type Spans struct{ tracer trace.Tracer } // nil: none

// NewSpans makes no spans if p is nil.
func NewSpans(p trace.TracerProvider) Spans {
	if p == nil {
		return Spans{}
	}
	return Spans{p.Tracer(Scope)}
}

// Start begins a span; table may be "".
func (s Spans) Start(ctx context.Context, name, table string) (context.Context, Span) {
	if s.tracer == nil {
		return ctx, Span{}
	}
	ctx, sp := s.tracer.Start(ctx, name)
	if table != "" && sp.IsRecording() {
		sp.SetAttributes(attribute.String(attrTable, table))
	}
	return ctx, Span{sp}
}

// Within is Start for a step that is worth a span only as a part of another one, not where the
// client works for itself.
func (s Spans) Within(ctx context.Context, name string) (context.Context, Span) {
	if s.tracer == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, Span{}
	}
	return s.Start(ctx, name, "")
}

// Current is the span that the client began last for ctx.
func (s Spans) Current(ctx context.Context) Span {
	if s.tracer == nil {
		return Span{}
	}
	return Span{trace.SpanFromContext(ctx)}
}

// Span is a span of the client's. The zero value does nothing and costs nothing.
type Span struct{ trace.Span }

// End ends the span. The message of an error stays out of it, as it names rows.
func (s Span) End(err error) {
	if s.Span == nil {
		return
	}
	if err != nil {
		s.SetAttributes(attribute.String(attrError, errorType(err)))
		s.SetStatus(codes.Error, "")
	}
	s.Span.End()
}

// Count sets an attribute to a number.
func (s Span) Count(key string, n int) {
	if s.Span != nil {
		s.SetAttributes(attribute.Int(key, n))
	}
}

// Timestamp sets an attribute to a timestamp.
func (s Span) Timestamp(key string, ts tso.Timestamp) {
	if s.Span != nil {
		s.SetAttributes(attribute.Int64(key, int64(ts)))
	}
}

// Event notes something about a table.
func (s Span) Event(name, table, kind string) {
	if s.Span != nil {
		s.AddEvent(name, trace.WithAttributes(attribute.String(attrTable, table), attribute.String(attrKind, kind)))
	}
}

// Conflict notes what a transaction conflicted with.
func (s Span) Conflict(err error) {
	if s.Span == nil || err == nil {
		return
	}
	var c *model.ConflictError
	if !errors.As(err, &c) {
		return
	}
	kind := "write"
	switch {
	case c.Locked:
		kind = "lock"
	case c.GaveWay:
		kind = "turn" // of another Update of this client
	case c.OtherTS == 0:
		kind = "rollback" // another client judged this transaction dead
	}
	s.Event("percolator.conflict", c.Cell.Table, kind)
}

// ErrPanicked ends a span whose function of the application's does not return.
var ErrPanicked = errors.New("the function did not return")
