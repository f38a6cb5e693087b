package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/internal/serve/exporters"
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

// logFlags say how the log is written.
type logFlags struct{ format string }

func (f *logFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "log-format", "text", "form of the log on the standard error: text or json [$PERCOLATOR_LOG_FORMAT]")
}

func (f *logFlags) logger(cmd *cobra.Command) (*slog.Logger, error) {
	switch f.format {
	case "text":
		return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil)), nil
	}
	return nil, usagef("--log-format %q is neither text nor json", f.format)
}
