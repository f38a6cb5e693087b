package observers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Each run is a trace of its own, with what the observer and the commit did below it. Nothing in it
// names the row or the value.
func TestSpansOfRuns(t *testing.T) {
	t.Parallel()
	const secret = "h0rseradish"
	e := newEnv(t, percolator.Table{Name: "t", Observed: []string{"in"}})
	spans := tracetest.NewSpanRecorder()
	c := e.NewClient(percolatortest.Configure(func(cfg *percolator.Config) {
		cfg.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	}))
	r := observers.NewRegistry()
	r.Observe("o", "t", "in", func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		if ch.Attempt == 1 {
			return errors.New("not yet, " + string(ch.Value))
		}
		return tx.Set(cell(ch.Cell.Row, "out"), ch.Value)
	})
	w, stop := e.start(c, r, observers.Config{DisableCollection: true, ReportInterval: -1, MinBackoff: time.Millisecond})
	ts := e.set(c, secret, "in", secret)
	e.idle(w)
	stop()
	var roots []string
	for _, s := range spans.Ended() {
		told := fmt.Sprint(s.Name(), s.Status().Description, s.Attributes(), s.Events())
		if strings.Contains(told, secret) {
			t.Errorf("a span tells %s", told)
		}
		if s.Name() != "percolator.observer.run" {
			continue
		}
		line := ""
		for _, a := range s.Attributes() {
			if a.Key == "percolator.notification_timestamp" && a.Value.AsInt64() == int64(ts) {
				continue
			}
			line += fmt.Sprintf("%s=%s ", strings.TrimPrefix(string(a.Key), "percolator."), a.Value.String())
		}
		for _, child := range spans.Ended() {
			if child.Parent().SpanID() == s.SpanContext().SpanID() {
				line += "[" + child.Name() + "]"
			}
		}
		if s.Parent().IsValid() {
			t.Error("a run has a parent")
		}
		roots = append(roots, line)
	}
	want := []string{
		"observer=o db.collection.name=t attempt=1 outcome=error [percolator.timestamp]",
		"observer=o db.collection.name=t attempt=2 outcome=committed [percolator.timestamp][percolator.commit]",
	}
	if !slices.Equal(roots, want) {
		t.Errorf("runs\n%s\nwant\n%s", strings.Join(roots, "\n"), strings.Join(want, "\n"))
	}
}

// What waits shows with its age until it is done. Parked cells do not count as waiting.
func TestBacklogShowsItsAgeUntilItIsDone(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		e := newEnv(t, percolator.Table{Name: "t", Observed: []string{"in"}})
		reader := metric.NewManualReader()
		c := e.NewClient()
		hold := make(chan struct{})
		r := observers.NewRegistry()
		r.Observe("o", "t", "in", func(ctx context.Context, _ *percolator.Txn, ch observers.Change) error {
			if ch.Cell.Row == "bad" {
				return errors.New("bad")
			}
			select {
			case <-hold:
			case <-ctx.Done():
			}
			return ctx.Err()
		})
		e.set(e.client, "slow", "in", "v")
		e.set(e.client, "bad", "in", "v")
		e.Clock.Advance(time.Hour)
		if _, err := c.Snapshot(e.ctx); err != nil { // it knows the time
			t.Fatal(err)
		}
		w, stop := e.start(c, r, observers.Config{
			ScanInterval: time.Millisecond, MaxAttempts: 2, MinBackoff: time.Millisecond, DisableCollection: true, ReportInterval: -1,
			MeterProvider: metric.NewMeterProvider(metric.WithReader(reader)),
		})
		e.until("the backlog", func() bool { s := w.Stats(); return s.Backlog >= time.Hour && s.ParkedCells == 1 })
		var got metricdata.ResourceMetrics
		if err := reader.Collect(e.ctx, &got); err != nil {
			t.Fatal(err)
		}
		values := gauges(got)
		if age := values["percolator.notifications.oldest.age"]; age < 3600 || age > 7200 {
			t.Errorf("the oldest notification is %v s old", age)
		}
		if values["percolator.notifications.parked"] != 1 || values["percolator.observer.running"] != 1 || values["percolator.observer.queue.cells"] != 0 {
			t.Errorf("the gauges are %v", values)
		}
		close(hold)
		e.until("the end of the backlog", func() bool { s := w.Stats(); return s.Backlog == 0 && s.ParkedCells == 1 })
		stop()
		got = metricdata.ResourceMetrics{}
		if err := reader.Collect(e.ctx, &got); err != nil {
			t.Fatal(err)
		}
		if values := gauges(got); len(values) != 0 {
			t.Errorf("after the end the gauges are %v", values)
		}
	})
}

// gauges returns the values of all gauges, of their first series.
func gauges(got metricdata.ResourceMetrics) map[string]float64 {
	values := map[string]float64{}
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Gauge[int64]:
				values[m.Name] = float64(data.DataPoints[0].Value)
			case metricdata.Gauge[float64]:
				values[m.Name] = data.DataPoints[0].Value
			}
		}
	}
	return values
}
