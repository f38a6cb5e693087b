package main

import (
	"log/slog"

	"github.com/spf13/cobra"
)

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
