package observability

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// cluster is an oracle server, clients and a worker, all of whose telemetry is at hand.
type cluster struct {
	*testing.T
	ctx      context.Context
	env      *percolatortest.Env
	c        *percolator.Client
	registry *prometheus.Registry
	meters   *metric.MeterProvider
	reader   *metric.ManualReader
	spans    *tracetest.SpanRecorder
}

var (
	measureOnce sync.Once
	measuredNow *measured
)

// measured is what one run of the workload has shown.
type measured struct {
	instruments map[string]instrument // by name
	page        string                // /metrics
	spans       map[string][]string   // attributes by name
	events      map[string][]string
}

type instrument struct {
	scope, kind, unit string
	attributes        []string // sorted
}

// measure runs the workload once for all tests.
func measure(t *testing.T) *measured {
	t.Helper()
	measureOnce.Do(func() {
		percolatortest.Bubble(t, func(t *testing.T) { measuredNow = runWorkload(t) })
	})
	if measuredNow == nil {
		t.Fatal("the workload has failed")
	}
	return measuredNow
}

func runWorkload(t *testing.T) *measured {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cl := &cluster{T: t, ctx: ctx, registry: prometheus.NewRegistry(), reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	prom, err := otelprom.New(otelprom.WithRegisterer(cl.registry), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
	cl.must(err)
	cl.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	cl.meters = metric.NewMeterProvider(metric.WithReader(prom), metric.WithReader(cl.reader))
	stopOracle := cl.startOracle()
	defer stopOracle()
	cl.env = percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t", Observed: []string{"in"}}}})
	cl.c = cl.client()
	cl.meetLock() // before a scanner could
	idle, stopWorker := cl.startWorker()
	cl.write()
	cl.fail()
	cl.collect()
	idle()
	m := cl.readMetrics()
	stopWorker()
	cl.readSpans(m)
	return m
}

func (cl *cluster) must(err error) {
	cl.Helper()
	if err != nil {
		cl.Fatal(err)
	}
}

// startOracle runs a server beside the one that the clients use.
func (cl *cluster) startOracle() (stop func()) {
	s, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{MeterProvider: cl.meters})
	cl.must(err)
	ctx, cancel := context.WithCancel(cl.ctx)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	if _, err := s.Next(cl.ctx); err != nil {
		cl.Fatal(err)
	}
	return func() { cancel(); cl.must(<-done) }
}

func (cl *cluster) client() *percolator.Client {
	return cl.env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) {
		cfg.MeterProvider = cl.meters
		cfg.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(cl.spans))
	}))
}

// startWorker runs an observer that fails for one row, until it is given up.
func (cl *cluster) startWorker() (idle, stop func()) {
	r := observers.NewRegistry()
	r.Observe("copy", "t", "in", func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		if ch.Cell.Row == "bad" {
			return fmt.Errorf("it is bad")
		}
		return tx.Set(percolator.Cell{Table: "t", Row: ch.Cell.Row, Column: "out"}, ch.Value)
	})
	r.ObserveBatch("batch", "t", "in", func(context.Context, *percolator.Txn, []observers.Change) error { return nil })
	w, err := observers.NewWorker(cl.c, r, observers.Config{MaxAttempts: 2, MinBackoff: time.Millisecond, ScanInterval: 10 * time.Millisecond})
	cl.must(err)
	ctx, cancel := context.WithCancel(cl.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	idle = func() { cl.must(w.WaitIdle(cl.ctx)) }
	return idle, func() {
		if s := w.Stats(); s.Runs < 2 || s.ObserverStats.Parked != 1 || s.Retries != 1 {
			cl.Errorf("the worker did %+v", s)
		}
		for w.Stats().ParkedCells == 0 { // a whole round after the parking
			cl.must(cl.ctx.Err())
			time.Sleep(time.Millisecond)
		}
		cancel()
		cl.must(<-done)
	}
}

func at(row, column string) percolator.Cell {
	return percolator.Cell{Table: "t", Row: row, Column: column}
}

// write has transactions that succeed.
func (cl *cluster) write() {
	_, err := cl.c.Update(cl.ctx, func(ctx context.Context, tx *percolator.Txn) error {
		if _, err := tx.GetMulti(ctx, at("a", "c"), at("b", "c")); err != nil {
			return err
		}
		for _, row := range []string{"a", "b", "bad"} {
			if err := tx.Set(at(row, "in"), []byte("v")); err != nil {
				return err
			}
		}
		return nil
	})
	cl.must(err)
	cl.must(cl.c.View(cl.ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		if _, err := s.Get(ctx, at("a", "in")); err != nil {
			return err
		}
		for _, err := range s.Scan(ctx, "t", percolator.All()) {
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// fail has some that do not.
func (cl *cluster) fail() {
	_, err := cl.c.Update(cl.ctx, func(ctx context.Context, tx *percolator.Txn) error {
		if _, err := cl.env.Client.Update(ctx, func(_ context.Context, other *percolator.Txn) error { return other.Set(at("x", "c"), nil) }); err != nil {
			return err
		}
		return tx.Set(at("x", "c"), nil)
	}, percolator.MaxAttempts(1))
	if err == nil {
		cl.Fatal("there was no conflict")
	}
	snap, err := cl.c.Snapshot(cl.ctx)
	cl.must(err)
	gone, cancel := context.WithCancel(cl.ctx)
	cancel()
	if _, err := snap.Get(gone, at("y", "c")); err == nil {
		cl.Fatal("a read without time has succeeded")
	}
	if _, err := cl.c.Snapshot(gone); err == nil {
		cl.Fatal("a timestamp came without time")
	}
}

// meetLock reads a cell that a client which died has locked.
func (cl *cluster) meetLock() {
	dead := cl.env.NewClient()
	casualty := 0
	cl.env.FaultsOf(dead).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.CheckAndMutateRow {
			if casualty++; casualty > 1 {
				return percolatortest.Crash
			}
		}
		return percolatortest.Pass
	})
	if _, err := dead.Update(cl.ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Set(at("locked", "c"), nil) }); err == nil {
		cl.Fatal("the client has survived")
	}
	snap, err := cl.c.Snapshot(cl.ctx)
	cl.must(err)
	short, cancel := context.WithTimeout(cl.ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := snap.Get(short, at("locked", "c")); err == nil {
		cl.Fatal("a locked cell could be read")
	}
	cl.env.Clock.Advance(11 * time.Second)
	if _, err := snap.GetMulti(cl.ctx, at("locked", "c")); err != nil {
		cl.Fatal(err)
	}
}

// collect begins a cycle, and gives it up in its drain, which takes more than a minute.
func (cl *cluster) collect() {
	ctx, cancel := context.WithCancel(cl.ctx)
	defer cancel()
	draining := func(p admin.Collection) {
		if p.Phase == model.CollectionDrain {
			cancel()
		}
	}
	g, err := admin.New(cl.c).NewCollector(admin.CollectorConfig{Progress: draining})
	cl.must(err)
	if _, err := g.Collect(ctx); err == nil {
		cl.Fatal("the cycle has ended")
	}
}

// readMetrics reads them while everything runs.
func (cl *cluster) readMetrics() *measured {
	cl.must(cl.c.Flush(cl.ctx))
	m := &measured{instruments: map[string]instrument{}, spans: map[string][]string{}, events: map[string][]string{}}
	var got metricdata.ResourceMetrics
	cl.must(cl.reader.Collect(cl.ctx, &got))
	for _, scope := range got.ScopeMetrics {
		for _, i := range scope.Metrics {
			kind, sets := cl.series(i)
			m.instruments[i.Name] = instrument{scope.Scope.Name, kind, i.Unit, sets}
		}
	}
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(cl.registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	m.page = answer.Body.String()
	return m
}

// readSpans reads those of everything that has ended.
func (cl *cluster) readSpans(m *measured) {
	for _, s := range cl.spans.Ended() {
		names := m.spans[s.Name()]
		for _, a := range s.Attributes() {
			names = append(names, string(a.Key))
		}
		m.spans[s.Name()] = names
		for _, e := range s.Events() {
			for _, a := range e.Attributes {
				m.events[e.Name] = append(m.events[e.Name], string(a.Key))
			}
		}
	}
}

// series names the kind of an instrument and the attributes of its series.
func (cl *cluster) series(m metricdata.Metrics) (kind string, attributes []string) {
	add := func(keys []string) { attributes = append(attributes, keys...) }
	switch data := m.Data.(type) {
	case metricdata.Histogram[float64]:
		kind = "histogram"
		for _, p := range data.DataPoints {
			add(keysOf(p.Attributes))
		}
	case metricdata.Histogram[int64]:
		kind = "histogram"
		for _, p := range data.DataPoints {
			add(keysOf(p.Attributes))
		}
	case metricdata.Sum[int64]:
		kind = "counter"
		for _, p := range data.DataPoints {
			add(keysOf(p.Attributes))
		}
	case metricdata.Gauge[int64]:
		kind = "gauge"
		for _, p := range data.DataPoints {
			add(keysOf(p.Attributes))
		}
	case metricdata.Gauge[float64]:
		kind = "gauge"
		for _, p := range data.DataPoints {
			add(keysOf(p.Attributes))
		}
	default:
		cl.Fatalf("%s is a %T", m.Name, data)
	}
	slices.Sort(attributes)
	return kind, slices.Compact(attributes)
}

// rows returns the rows of the tables of docs/TELEMETRY.md whose first column has this title, cell
// by cell, with the scope named before them.
func rows(t *testing.T, title string) (out [][]string) {
	t.Helper()
	text, err := os.ReadFile("../TELEMETRY.md")
	if err != nil {
		t.Fatal(err)
	}
	scope, in := "", false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "Scope `"); ok {
			scope = strings.TrimSuffix(name, "`.")
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		switch {
		case !strings.HasPrefix(line, "|"):
			in = false
		case strings.TrimSpace(cells[0]) == title:
			in = true
		case in && !strings.HasPrefix(line, "|-"):
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			out = append(out, append(cells, scope))
		}
	}
	return out
}

var quoted = regexp.MustCompile("`([^`]+)`")

// inQuotes lists what stands in back quotes, sorted.
func inQuotes(s string) (out []string) {
	for _, m := range quoted.FindAllStringSubmatch(s, -1) {
		out = append(out, m[1])
	}
	slices.Sort(out)
	return out
}

// The table has what is measured, as it is measured, and nothing else.
func TestMetricsAreDocumented(t *testing.T) {
	m := measure(t)
	documented := map[string]bool{}
	for _, r := range rows(t, "name") {
		name := inQuotes(r[0])[0]
		documented[name] = true
		got, ok := m.instruments[name]
		if !ok {
			t.Errorf("%s is documented and was not measured", name)
			continue
		}
		want := instrument{r[5], r[1], r[2], inQuotes(r[3])}
		same := slices.Equal(got.attributes, want.attributes)
		if !same { // error.type is there only where something has failed, which the workload does not bring about for each
			same = slices.Equal(got.attributes, slices.DeleteFunc(slices.Clone(want.attributes), func(a string) bool { return a == "error.type" }))
		}
		if got.scope != want.scope || got.kind != want.kind || got.unit != want.unit || !same {
			t.Errorf("%s is %+v, documented as %+v", name, got, want)
		}
	}
	for name := range m.instruments {
		if !documented[name] {
			t.Errorf("%s is measured and not documented", name)
		}
	}
}

func TestSpansAreDocumented(t *testing.T) {
	m := measure(t)
	compare := func(what string, got map[string][]string, rows [][]string) {
		documented := map[string][]string{}
		for _, r := range rows {
			documented[inQuotes(r[0])[0]] = inQuotes(r[1])
		}
		for name, attributes := range got {
			known, ok := documented[name]
			if !ok {
				t.Errorf("%s %s is not documented", what, name)
			}
			for _, a := range attributes {
				if a != "error.type" && ok && !slices.Contains(known, a) {
					t.Errorf("%s %s has %s, which is not documented", what, name, a)
				}
			}
		}
		for name := range documented {
			if _, seen := got[name]; !seen {
				t.Errorf("%s %s is documented and did not happen", what, name)
			}
		}
	}
	compare("span", m.spans, rows(t, "span"))
	compare("event", m.events, rows(t, "event"))
}
