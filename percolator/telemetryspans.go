package percolator

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/gopercolator/percolator/tso"
)

// spans makes the client's trace spans: one for each call of the caller's, and below it one for each step of the protocol, not for
// each request. A transaction may send thousands of those, and whoever wants to see them can trace gRPC (docs/TELEMETRY.md).
type spans struct{ tracer trace.Tracer } // nil: none

func newSpans(p trace.TracerProvider) spans {
	if p == nil {
		return spans{}
	}
	return spans{p.Tracer(scope)}
}

// start begins a span; table may be "".
func (s spans) start(ctx context.Context, name, table string) (context.Context, span) {
	if s.tracer == nil {
		return ctx, span{}
	}
	ctx, sp := s.tracer.Start(ctx, name)
	if table != "" && sp.IsRecording() {
		sp.SetAttributes(attribute.String(attrTable, table))
	}
	return ctx, span{sp}
}

// within is start for what is worth a span only as a part of another one: not where the client works for itself.
func (s spans) within(ctx context.Context, name string) (context.Context, span) {
	if s.tracer == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, span{}
	}
	return s.start(ctx, name, "")
}

// current is the span that the client began last for ctx.
func (s spans) current(ctx context.Context) span {
	if s.tracer == nil {
		return span{}
	}
	return span{trace.SpanFromContext(ctx)}
}

// span is a span of the client's; the zero value does nothing, and costs nothing.
type span struct{ trace.Span }

// end ends the span. The message of an error stays out of it, as it names rows.
func (s span) end(err error) {
	if s.Span == nil {
		return
	}
	if err != nil {
		s.SetAttributes(attribute.String(attrError, errorType(err)))
		s.SetStatus(codes.Error, "")
	}
	s.End()
}

func (s span) count(key string, n int) {
	if s.Span != nil {
		s.SetAttributes(attribute.Int(key, n))
	}
}

func (s span) timestamp(key string, ts tso.Timestamp) {
	if s.Span != nil {
		s.SetAttributes(attribute.Int64(key, int64(ts)))
	}
}

// event notes something about a table.
func (s span) event(name, table, kind string) {
	if s.Span != nil {
		s.AddEvent(name, trace.WithAttributes(attribute.String(attrTable, table), attribute.String(attrKind, kind)))
	}
}

// conflict notes what a transaction has met.
func (s span) conflict(err error) {
	if s.Span == nil || err == nil {
		return
	}
	var c *ConflictError
	if !errors.As(err, &c) {
		return
	}
	kind := "write"
	switch {
	case c.Locked:
		kind = "lock"
	case c.OtherTS == 0:
		kind = "rollback" // somebody has judged this transaction dead
	}
	s.event("percolator.conflict", c.Cell.Table, kind)
}

// phaseTwoWatch measures phase two of one transaction, which goes on when Commit has returned: its span is a child of the commit's and
// ends later.
type phaseTwoWatch struct {
	c      *Client
	ctx    context.Context
	span   span
	begun  time.Time
	left   atomic.Int64 // rows
	failed atomic.Int64
}

func (c *Client) watchPhaseTwo(ctx context.Context, rows int) *phaseTwoWatch {
	w := &phaseTwoWatch{c: c, begun: time.Now()}
	w.ctx, w.span = c.trace.start(ctx, "percolator.phase_two", "")
	w.span.count("percolator.rows", rows)
	w.left.Store(int64(rows))
	return w
}

// rowDone counts a row that phase two has committed, or has left to lock resolution. The last one ends the span.
func (w *phaseTwoWatch) rowDone(err error) {
	if err != nil {
		w.failed.Add(1)
		w.c.count.phaseTwoLeft.Add(1)
	}
	if w.left.Add(-1) > 0 {
		return
	}
	if n := w.failed.Load(); n > 0 {
		w.span.count("percolator.rows.failed", int(n))
		if err == nil {
			err = errPhaseTwo
		}
	}
	w.c.store.metrics.phase(w.ctx, "phase_two", w.begun, err)
	w.span.end(err)
}

// errPhaseTwo stands for the failure of a row that was not the last.
var errPhaseTwo = errors.New("a row was left to lock resolution")

// errPanicked is how a span ends whose function of the caller's does not return.
var errPanicked = errors.New("the function did not return")
