package observers_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

func TestLogsNameNoRows(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, table()), observers.NewRegistry()
	r.Observe("o", "t", "in", func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		if ch.Cell.Row == "secret-row-1" {
			panic(ch.Cell.Row + string(ch.Value))
		}
		return errors.New(ch.Cell.Row + string(ch.Value))
	})
	var quiet, loud logBuffer
	w, stop := e.start(e.client, r, observers.Config{MaxAttempts: 2, MinBackoff: time.Millisecond, Logger: slog.New(slog.NewTextHandler(&quiet, nil))})
	e.set(e.client, "secret-row-1", "in", "secret-value")
	e.set(e.client, "secret-row-2", "in", "secret-value")
	e.idle(w)
	text := quiet.String()
	if strings.Contains(text, "secret") || !strings.Contains(text, "observer=o") || !strings.Contains(text, "parked") || !strings.Contains(text, "panic") {
		t.Fatalf("the log says:\n%s", text)
	}
	stop() // it shares the client that retries, and would be told
	e.retryParked()
	w, _ = e.start(e.NewClient(), r, observers.Config{MaxAttempts: 1, Logger: slog.New(slog.NewTextHandler(&loud, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	e.idle(w)
	if !strings.Contains(loud.String(), "secret-row-1") {
		t.Fatal("the debug log does not tell which row failed")
	}
}

type logBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}
