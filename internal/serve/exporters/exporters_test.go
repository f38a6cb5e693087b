package exporters

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric"
	colmetric "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// collector is an OTLP collector in this process.
type collector struct {
	colmetric.UnimplementedMetricsServiceServer
	coltrace.UnimplementedTraceServiceServer
	address string

	mu       sync.Mutex
	metrics  []string
	spans    []string
	resource map[string]string
	agents   []string // by which the exporters name themselves
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{address: "http://" + l.Addr().String(), resource: map[string]string{}}
	s := grpc.NewServer()
	colmetric.RegisterMetricsServiceServer(s, c)
	coltrace.RegisterTraceServiceServer(s, traces{c: c})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return c
}

func (c *collector) describe(ctx context.Context, attrs []*commonpb.KeyValue) {
	c.agents = append(c.agents, metadata.ValueFromIncomingContext(ctx, "user-agent")...)
	for _, a := range attrs {
		c.resource[a.GetKey()] = a.GetValue().GetStringValue()
	}
}

// Export implements the metrics service.
func (c *collector) Export(ctx context.Context, r *colmetric.ExportMetricsServiceRequest) (*colmetric.ExportMetricsServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rm := range r.GetResourceMetrics() {
		c.describe(ctx, rm.GetResource().GetAttributes())
		for _, sm := range rm.GetScopeMetrics() {
			for _, m := range sm.GetMetrics() {
				c.metrics = append(c.metrics, m.GetName())
			}
		}
	}
	return &colmetric.ExportMetricsServiceResponse{}, nil
}

type traces struct {
	coltrace.UnimplementedTraceServiceServer
	c *collector
}

// Export implements the trace service.
func (t traces) Export(ctx context.Context, r *coltrace.ExportTraceServiceRequest) (*coltrace.ExportTraceServiceResponse, error) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	for _, rs := range r.GetResourceSpans() {
		t.c.describe(ctx, rs.GetResource().GetAttributes())
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				t.c.spans = append(t.c.spans, s.GetName())
			}
		}
	}
	return &coltrace.ExportTraceServiceResponse{}, nil
}

// withEnv clears what the machine may have set.
func withEnv(t *testing.T, set map[string]string) {
	t.Helper()
	for _, name := range []string{
		"OTEL_SDK_DISABLED", "OTEL_METRICS_EXPORTER", "OTEL_TRACES_EXPORTER", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_TRACES_SAMPLER",
		"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
	} {
		t.Setenv(name, set[name])
	}
}

// measure counts and traces something.
func measure(t *testing.T, e *Exporters) {
	t.Helper()
	n, err := e.MeterProvider().Meter("test").Int64Counter("test.things", metric.WithUnit("{thing}"))
	if err != nil {
		t.Fatal(err)
	}
	n.Add(t.Context(), 3)
	if p := e.TracerProvider(); p != nil {
		_, span := p.Tracer("test").Start(t.Context(), "test.work")
		span.End()
	}
}

// What a program measured last arrives although the program ends at once, with the program's name.
func TestShutdownExportsTheRest(t *testing.T) {
	for _, c := range []struct {
		name, service string
		env           func(address string) map[string]string
		metrics       bool
		spans         bool
	}{
		{"both", "worker", func(a string) map[string]string { return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": a} }, true, true},
		{"metrics", "worker", func(a string) map[string]string {
			return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": a, "OTEL_TRACES_EXPORTER": "none"}
		}, true, false},
		{"traces", "renamed", func(a string) map[string]string {
			return map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": a, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc", "OTEL_SERVICE_NAME": "renamed"}
		}, false, true},
		{"disabled", "", func(a string) map[string]string {
			return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": a, "OTEL_SDK_DISABLED": "true"}
		}, false, false},
		{"none", "", func(string) map[string]string { return nil }, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			col := startCollector(t)
			withEnv(t, c.env(col.address))
			e, err := Start(t.Context(), Service{Name: "worker", Version: "v1.2.3"})
			if err != nil {
				t.Fatal(err)
			}
			if (e.TracerProvider() != nil) != c.spans {
				t.Errorf("a tracer provider: %v", e.TracerProvider() != nil)
			}
			measure(t, e)
			if err := e.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			col.mu.Lock()
			defer col.mu.Unlock()
			if got := strings.Join(col.metrics, " "); (got == "test.things") != c.metrics {
				t.Errorf("metrics: %q", got)
			}
			if got := strings.Join(col.spans, " "); (got == "test.work") != c.spans {
				t.Errorf("spans: %q", got)
			}
			if got := col.resource["service.name"]; got != c.service {
				t.Errorf("the service is %q, want %q", got, c.service)
			}
			if c.service != "" && col.resource["service.version"] != "v1.2.3" {
				t.Errorf("the resource is %v", col.resource)
			}
			for _, agent := range col.agents {
				if !strings.HasPrefix(agent, "OTel ") { // not the connection's alone
					t.Errorf("an exporter says that it is %q", agent)
				}
			}
		})
	}
}

// A collector that does not answer keeps the program from ending for a bounded time only.
func TestShutdownWithoutCollector(t *testing.T) {
	withEnv(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317", "OTEL_TRACES_EXPORTER": "none"})
	synctest.Test(t, func(t *testing.T) {
		e, err := start(t.Context(), Service{Name: "worker"}, grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			client, silent := net.Pipe()
			t.Cleanup(func() { _ = silent.Close() })
			go func() { _, _ = io.Copy(io.Discard, silent) }()
			return client, nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		measure(t, e)
		started := time.Now()
		if err := e.Shutdown(t.Context()); err == nil {
			t.Error("what nobody has taken is exported")
		}
		if took := time.Since(started); took != flushTimeout {
			t.Errorf("it took %v, not %v", took, flushTimeout)
		}
	})
}

func TestOnlyGRPC(t *testing.T) {
	withEnv(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"})
	if _, err := Start(t.Context(), Service{Name: "worker"}); err == nil || !strings.Contains(err.Error(), "only grpc") {
		t.Errorf("Start: %v", err)
	}
}

func TestMetricsAreServedOnLoopbackAlone(t *testing.T) {
	withEnv(t, nil)
	e, err := Start(t.Context(), Service{Name: "worker"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Shutdown(t.Context()) }()
	measure(t, e)
	if _, err := Listen(t.Context(), "0.0.0.0:0", false); err == nil {
		t.Error("a public address was accepted")
	}
	l, err := Listen(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Serve(ctx, l) }()
	resp, err := http.Get("http://" + l.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !strings.Contains(string(body), "test_things_total 3") || !strings.Contains(string(body), "go_goroutines") {
		t.Errorf("%v: %s", err, body)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
