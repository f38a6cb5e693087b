package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"

	"github.com/gopercolator/percolator/internal/serve/exporters"
)

// startTelemetry hands the metrics of the store's client and of its worker to Prometheus, at an
// address unless that is "", and metrics and traces to an OpenTelemetry collector, if the
// environment names one. stop exports the rest.
func (t *target) startTelemetry(ctx context.Context, address string, stderr io.Writer, log *slog.Logger) (stop func(), err error) {
	version := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	if t.telemetry, err = exporters.Start(ctx, exporters.Service{Name: "webindex-worker", Version: version}); err != nil {
		return nil, err
	}
	flush := func() {
		if err := t.telemetry.Shutdown(ctx); err != nil {
			log.Warn("the collector of metrics and traces did not take the last of them", "reason", err)
		}
	}
	if address == "" {
		return flush, nil
	}
	l, err := exporters.Listen(ctx, address, false)
	if err != nil {
		flush()
		return nil, fmt.Errorf("--metrics: %w", err)
	}
	fmt.Fprintf(stderr, "worker: metrics at http://%s/metrics\n", l.Addr())
	serving, end := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- t.telemetry.Serve(serving, l) }()
	return func() {
		end()
		if err := <-done; err != nil {
			log.Warn("metrics were not served", "reason", err)
		}
		flush()
	}, nil
}
