package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/percolator/model"
)

// A warning tells what the failure was, and names no row: only level Debug has the text.
func TestWarnNamesTheCause(t *testing.T) {
	t.Parallel()
	row := func(err error) error { return fmt.Errorf(`t/"secret": %w`, err) }
	for want, err := range map[string]error{
		"Unavailable":                   row(status.Error(codes.Unavailable, "secret")),
		"corrupt":                       row(model.ErrCorrupt),
		"locked":                        row(model.ErrLocked),
		"outcome_unknown (Unavailable)": row(fmt.Errorf("%w: %w", model.ErrOutcomeUnknown, status.Error(codes.Unavailable, "secret"))),
		"schema_mismatch (NotFound)":    row(fmt.Errorf("%w: %w", model.ErrSchemaMismatch, status.Error(codes.NotFound, "secret"))),
		"timeout":                       row(context.DeadlineExceeded),
		"_OTHER":                        row(errors.New("secret")),
	} {
		var at [2]bytes.Buffer
		for i, level := range []slog.Level{slog.LevelWarn, slog.LevelDebug} {
			Warn(slog.New(slog.NewTextHandler(&at[i], &slog.HandlerOptions{Level: level})), "it stopped", err, "table", "t")
		}
		if said := at[0].String(); !strings.Contains(said, "table=t cause="+quoted(want)) || strings.Contains(said, "secret") {
			t.Errorf("%v: %s", err, said)
		}
		if said := at[1].String(); !strings.Contains(said, "secret") {
			t.Errorf("at level Debug: %s", said)
		}
	}
}

func quoted(s string) string {
	if strings.Contains(s, " ") {
		return fmt.Sprintf("%q", s)
	}
	return s
}
