// Package exporters connects the programs of this module with collectors of metrics and traces:
// Prometheus, which polls, and an OTLP collector, to which they send. The libraries only know
// OpenTelemetry's interfaces; a program hands them the providers from here.
//
// OTLP is off until one of OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_METRICS_ENDPOINT and
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set. The other variables of OpenTelemetry's specification
// apply as well: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER,
// OTEL_METRIC_EXPORT_INTERVAL, OTEL_EXPORTER_OTLP_HEADERS, …_CERTIFICATE and so on,
// OTEL_METRICS_EXPORTER=none, OTEL_TRACES_EXPORTER=none, OTEL_SDK_DISABLED.
package exporters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
)

const (
	requestsAtOnce = 4               // of Prometheus
	scrapeTimeout  = 5 * time.Second // for one
	flushTimeout   = 5 * time.Second // for what is not exported yet when the program ends
	seriesOfOne    = 2000            // attribute sets of one instrument; more are counted together
)

// Service names the program to the collector, unless the environment does.
type Service struct{ Name, Version string }

// Exporters are a program's providers of meters and tracers.
type Exporters struct {
	registry *prometheus.Registry
	meters   *sdkmetric.MeterProvider
	tracers  *sdktrace.TracerProvider // nil: traces go nowhere
}

// Start makes the providers. It does not wait for a collector: one that cannot be reached is tried
// again.
func Start(ctx context.Context, s Service) (*Exporters, error) { return start(ctx, s) }

// start connects to a collector with these options as well.
func start(ctx context.Context, s Service, dial ...grpc.DialOption) (*Exporters, error) {
	failed := func(err error) (*Exporters, error) { return nil, fmt.Errorf("setting telemetry up: %w", err) }
	var metricOptions []otlpmetricgrpc.Option
	var traceOptions []otlptracegrpc.Option
	if len(dial) > 0 { // none would still replace what an exporter brings: its name
		metricOptions = append(metricOptions, otlpmetricgrpc.WithDialOption(dial...))
		traceOptions = append(traceOptions, otlptracegrpc.WithDialOption(dial...))
	}
	res, err := describe(ctx, s)
	if err != nil {
		return failed(err)
	}
	e := &Exporters{registry: prometheus.NewRegistry()}
	e.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewBuildInfoCollector())
	prom, err := otelprom.New(otelprom.WithRegisterer(e.registry), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
	if err != nil {
		return failed(err)
	}
	options := []sdkmetric.Option{sdkmetric.WithReader(prom), sdkmetric.WithResource(res), sdkmetric.WithCardinalityLimit(seriesOfOne)}
	if on, err := wanted("METRICS"); err != nil {
		return failed(err)
	} else if on {
		out, err := otlpmetricgrpc.New(ctx, metricOptions...)
		if err != nil {
			return failed(err)
		}
		options = append(options, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(out)))
	}
	e.meters = sdkmetric.NewMeterProvider(options...)
	if on, err := wanted("TRACES"); err != nil {
		return failed(err)
	} else if on {
		out, err := otlptracegrpc.New(ctx, traceOptions...)
		if err != nil {
			return failed(err)
		}
		e.tracers = sdktrace.NewTracerProvider(sdktrace.WithBatcher(out), sdktrace.WithResource(res))
	}
	return e, nil
}

// describe is the resource that metrics and traces belong to. What the environment says goes first.
func describe(ctx context.Context, s Service) (*resource.Resource, error) {
	return resource.New(ctx,
		resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(
			attribute.String("service.name", s.Name), attribute.String("service.version", s.Version),
			attribute.String("service.instance.id", uuid.NewString())),
		resource.WithFromEnv())
}

// wanted tells whether a signal, "METRICS" or "TRACES", is to be exported by OTLP.
func wanted(signal string) (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_"+signal+"_EXPORTER") == "none" {
		return false, nil
	}
	endpoint, protocol := "", ""
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_", "OTEL_EXPORTER_OTLP_"} {
		endpoint = cmp.Or(endpoint, os.Getenv(prefix+"ENDPOINT"))
		protocol = cmp.Or(protocol, os.Getenv(prefix+"PROTOCOL"))
	}
	if endpoint != "" && protocol != "" && protocol != "grpc" {
		return false, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL=%s: only grpc is supported, usually at port 4317 of the collector", protocol)
	}
	return endpoint != "", nil
}

// MeterProvider is for the libraries' configurations.
func (e *Exporters) MeterProvider() metric.MeterProvider { return e.meters }

// TracerProvider is for the libraries' configurations; nil when traces go nowhere, so that they
// cost nothing.
func (e *Exporters) TracerProvider() trace.TracerProvider {
	if e.tracers == nil {
		return nil
	}
	return e.tracers
}

// Handler serves /metrics to Prometheus.
func (e *Exporters) Handler() http.Handler {
	return promhttp.HandlerFor(e.registry, promhttp.HandlerOpts{MaxRequestsInFlight: requestsAtOnce, Timeout: scrapeTimeout})
}

// Shutdown exports what has not been exported yet, within 5 s.
func (e *Exporters) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	err := e.meters.Shutdown(ctx)
	if e.tracers != nil {
		err = errors.Join(e.tracers.Shutdown(ctx), err)
	}
	if err != nil {
		return fmt.Errorf("telemetry that was not exported is lost: %w", err)
	}
	return nil
}
