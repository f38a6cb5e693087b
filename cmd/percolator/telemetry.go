package main

import (
	"context"
	"log/slog"

	"github.com/gopercolator/percolator/internal/exporters"
)

// startTelemetry makes the exporters of a command; they tell a collector only where the environment
// names one. stop exports the rest; its failure is worth a line in the log, and not an exit status.
func startTelemetry(ctx context.Context, service string, logger *slog.Logger) (e *exporters.Exporters, stop func(), err error) {
	e, err = exporters.Start(ctx, exporters.Service{Name: service, Version: programVersion()})
	if err != nil {
		return nil, nil, usagef("%w", err)
	}
	return e, func() {
		if err := e.Shutdown(ctx); err != nil {
			logger.Warn("the collector of metrics and traces did not take the last of them", "error", err)
		}
	}, nil
}
