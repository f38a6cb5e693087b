package percolator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// secret is in every row key and every value of the workload, valueSecret in values alone.
const (
	secret      = "h0rseradish"
	valueSecret = "w4sabi"
)

// lockedBuffer is written to from many goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// watched is a client all of whose telemetry is kept.
type watched struct {
	c      *percolator.Client
	spans  *tracetest.SpanRecorder
	reader *metric.ManualReader
	logs   lockedBuffer
}

func newWatched(env *percolatortest.Env, level slog.Level) *watched {
	w := &watched{spans: tracetest.NewSpanRecorder(), reader: metric.NewManualReader()}
	w.c = env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) {
		cfg.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.spans))
		cfg.MeterProvider = metric.NewMeterProvider(metric.WithReader(w.reader))
		cfg.Logger = slog.New(slog.NewTextHandler(&w.logs, &slog.HandlerOptions{Level: level}))
	}))
	return w
}

// Rows and values do not show in spans, metrics and logs, whatever happens.
func TestTelemetryTellsNoSecrets(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	w := newWatched(env, slog.LevelInfo)
	if failures := workload(t, ctx, env, w.c); len(failures) < 6 {
		t.Errorf("only %d calls failed: the workload does not show what errors show", len(failures))
	}
	fixture.Must(t, w.c.Flush(ctx))
	if err := w.c.Close(); err != nil {
		t.Fatal(err)
	}
	spans := w.spans.Ended()
	if len(spans) < 30 {
		t.Errorf("%d spans", len(spans))
	}
	for _, s := range spans {
		told := fmt.Sprint(s.Name(), s.Status().Description, s.Attributes(), s.Resource())
		for _, e := range s.Events() {
			told += fmt.Sprint(e.Name, e.Attributes)
		}
		if strings.Contains(told, secret) {
			t.Errorf("a span tells %s", told)
		}
	}
	if logs := w.logs.String(); strings.Contains(logs, secret) {
		t.Errorf("logged: %s", logs)
	}
}

// Errors name cells, and at level Debug rows may show. Values show nowhere.
func TestErrorsTellNoValues(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	w := newWatched(env, slog.LevelDebug)
	for _, err := range workload(t, ctx, env, w.c) {
		if strings.Contains(err.Error(), valueSecret) {
			t.Errorf("an error tells %v", err)
		}
	}
	fixture.Must(t, w.c.Flush(ctx))
	fixture.Must(t, w.c.Close())
	if logs := w.logs.String(); strings.Contains(logs, valueSecret) {
		t.Errorf("logged: %s", logs)
	}
}

func TestMetricsTellNoSecrets(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	w := newWatched(env, slog.LevelInfo)
	workload(t, ctx, env, w.c)
	fixture.Must(t, w.c.Flush(ctx))
	var got metricdata.ResourceMetrics
	fixture.Must(t, w.reader.Collect(ctx, &got))
	series := 0
	for _, m := range got.ScopeMetrics[0].Metrics {
		for _, set := range attributesOf(t, m) {
			series++
			if told := fmt.Sprint(set.ToSlice()); strings.Contains(told, secret) {
				t.Errorf("%s has %s", m.Name, told)
			}
		}
	}
	if series < 40 || series > 200 {
		t.Errorf("%d series", series)
	}
}

// attributesOf are the attributes of all series of a metric.
func attributesOf(t testing.TB, m metricdata.Metrics) (sets []attribute.Set) {
	t.Helper()
	switch data := m.Data.(type) {
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Histogram[int64]:
		for _, p := range data.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			sets = append(sets, p.Attributes)
		}
	default:
		t.Fatalf("%s is a %T", m.Name, data)
	}
	return sets
}

// workload has everything happen that can: reads, writes, conflicts, locks of a client that died,
// corrupt cells, failures of the store. It returns how calls failed.
func workload(t *testing.T, ctx context.Context, env *percolatortest.Env, c *percolator.Client) (failures []error) {
	t.Helper()
	row := func(i int) string { return fmt.Sprint(secret, i) }
	at := func(i int) percolator.Cell { return fixture.Cell(row(i), "c") }
	value := []byte("value " + secret + valueSecret)
	try := func(err error) {
		if err != nil {
			failures = append(failures, err)
		}
	}
	update := func(f func(ctx context.Context, tx *percolator.Txn) error, opts ...percolator.TxnOption) {
		t.Helper()
		_, err := c.Update(ctx, f, opts...)
		try(err)
	}
	set := func(rows ...int) func(ctx context.Context, tx *percolator.Txn) error {
		return func(_ context.Context, tx *percolator.Txn) (err error) {
			for _, i := range rows {
				err = errors.Join(err, tx.Set(at(i), value))
			}
			return errors.Join(err, tx.Set(fixture.Cell(row(rows[0]), "seen"), value), tx.Notify(fixture.Cell(row(rows[0]), "poke")))
		}
	}
	mail := percolator.String("people", "mail")
	update(set(1, 2, 3))
	update(func(ctx context.Context, tx *percolator.Txn) error { return mail.Set(tx, row(1), secret) })
	update(func(ctx context.Context, tx *percolator.Txn) error { return mail.Set(tx, row(2), secret) }) // ErrUnique
	update(func(ctx context.Context, tx *percolator.Txn) error { return tx.Insert(at(1), value) })      // ErrExists
	update(func(ctx context.Context, tx *percolator.Txn) error { return errors.New("my own " + secret) })
	update(func(ctx context.Context, tx *percolator.Txn) error { // ErrConflict, by a write
		fixture.Put(t, ctx, env.Client, row(1), "c", "other "+secret+valueSecret)
		return tx.Set(at(1), value)
	}, percolator.MaxAttempts(1))
	fixture.CrashAfter(t, env, nil, row(4), row(5))
	update(set(5, 4), percolator.MaxAttempts(1)) // ErrConflict, by a lock
	short, cancel := context.WithTimeout(ctx, 50e6)
	try(c.View(short, func(ctx context.Context, s *percolator.Snapshot) error { return fixture.ErrOf(s.Get(ctx, at(4))) })) // ErrLocked
	cancel()
	env.Clock.Advance(fixture.LockTTL)
	read := func(i int) {
		try(c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
			_, err := s.GetMulti(ctx, at(i), at(i+1))
			for _, serr := range s.Scan(ctx, "t", percolator.Prefix(secret)) {
				err = errors.Join(err, serr)
			}
			return err
		}))
	}
	read(4)
	fixture.Plant(t, ctx, env, "t", row(9), "write", "c", 1000, secret+valueSecret)
	fixture.Plant(t, ctx, env, "t", row(9), "lock", "c", 2000, secret+valueSecret)
	read(9) // ErrCorrupt
	env.FaultsOf(c).Handle(fixture.AtMost(2, fixture.IsCommit, percolatortest.LoseAnswer))
	update(set(6, 7, 8))
	env.FaultsOf(c).Handle(fixture.AtMost(2, fixture.IsPrewrite, percolatortest.LoseRequest))
	update(set(6, 7, 8))
	return failures
}

// A provider that is missing costs nothing: what a call allocates does not grow with what could be
// measured.
func TestTelemetryOffCostsNothing(t *testing.T) {
	env := fixture.NewEnv(t)
	off := telemetryCost(env.Client)
	got := testing.AllocsPerRun(100, off)
	for range 4 { // the client's other goroutines allocate now and then
		got = min(got, testing.AllocsPerRun(100, off))
	}
	if got != 0 {
		t.Errorf("%v allocations without providers", got)
	}
}
