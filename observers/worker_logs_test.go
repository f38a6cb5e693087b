package observers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A worker without a logger of its own has the client's. The log has the text of the observer's
// error, but not what errors of the library in it say of rows, unless the observer's are hidden.
func TestLogsTellTheObserversOwnWords(t *testing.T) {
	t.Parallel()
	for _, hide := range []bool{false, true} {
		e, r := newEnv(t, table()), observers.NewRegistry()
		r.Observe("o", "t", "in", func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
			_, err := tx.Get(ctx, cell(ch.Cell.Row, "none"))
			switch string(ch.Value) {
			case "panics":
				panic(fmt.Errorf("own words, of %w", err))
			case "tells":
				return fmt.Errorf("own words, of %v", err)
			}
			return errors.Join(fmt.Errorf("own words, of %w", err), errors.New("and more"))
		})
		var quiet, loud logBuffer
		c := e.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.Logger = slog.New(slog.NewTextHandler(&quiet, nil)) }))
		w, stop := e.start(c, r, observers.Config{MaxAttempts: 2, MinBackoff: time.Millisecond, HideErrors: hide})
		e.set(e.client, "secret-row-1", "in", "panics")
		e.set(e.client, "secret-row-2", "in", "tells")
		e.set(e.client, "secret-row-3", "in", "returns")
		e.idle(w)
		said := quiet.String()
		if strings.Contains(said, "secret") || !strings.Contains(said, "observer=o") {
			t.Fatalf("the log says:\n%s", said)
		}
		times := map[string]int{
			"level=ERROR":       1,
			"an attempt failed": 2,
			"is parked":         3,
			`err="panicked: own words, of percolator error" look`:     2,
			`err="own words, of percolator error" look`:               2,
			`err="own words, of percolator not_found\nand more" look`: 2,
		}
		for what, want := range times {
			if hide && strings.Contains(what, "own words") {
				want = 0
			}
			if n := strings.Count(said, what); n != want {
				t.Errorf("hiding errors: %v, %d times %q, want %d:\n%s", hide, n, what, want, said)
			}
		}
		stop() // it shares the client that retries, and would be told
		e.retryParked()
		w, _ = e.start(e.NewClient(), r, observers.Config{MaxAttempts: 1, HideErrors: hide, Logger: slog.New(slog.NewTextHandler(&loud, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		e.idle(w)
		if !strings.Contains(loud.String(), "secret-row-1") {
			t.Fatal("the debug log does not tell which row failed")
		}
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
