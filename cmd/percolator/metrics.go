package main

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
)

// metrics hands the instruments of the library, which are OpenTelemetry's, to
// Prometheus, together with those of the process and of Go's runtime.
type metrics struct {
	registry *prometheus.Registry
	provider *metric.MeterProvider
}

func newMetrics() (*metrics, error) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("setting metrics up: %w", err)
	}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewBuildInfoCollector())
	return &metrics{registry: registry, provider: metric.NewMeterProvider(metric.WithReader(exporter))}, nil
}

// metricsRequests bounds the collections that run at once.
const metricsRequests = 4

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: metricsRequests, Timeout: adminRequestTimeout / 2})
}
