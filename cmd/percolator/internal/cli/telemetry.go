package cli

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/internal/serve/exporters"
)

// StartTelemetry makes the exporters of a command; they tell a collector only where the environment
// names one. stop exports the rest; its failure is worth a line in the log, and not an exit status.
func StartTelemetry(ctx context.Context, service string, logger *slog.Logger) (e *exporters.Exporters, stop func(), err error) {
	e, err = exporters.Start(ctx, exporters.Service{Name: service, Version: ProgramVersion()})
	if err != nil {
		return nil, nil, Usagef("%w", err)
	}
	return e, func() {
		if err := e.Shutdown(ctx); err != nil {
			logger.Warn("the collector of metrics and traces did not take the last of them", "error", err)
		}
	}, nil
}

// LogFlags say how the log is written.
type LogFlags struct{ format string }

// Add adds --log-format.
func (f *LogFlags) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "log-format", "text", "form of the log on the standard error: text or json [$PERCOLATOR_LOG_FORMAT]")
}

// Logger writes to the standard error.
func (f *LogFlags) Logger(cmd *cobra.Command) (*slog.Logger, error) {
	switch f.format {
	case "text":
		return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil)), nil
	}
	return nil, Usagef("--log-format %q is neither text nor json", f.format)
}
