package observers_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// An observer that ignores its context is counted, reported and logged once its run is overdue, and
// no more when it returns.
func TestOverdueRunsAreShown(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		e, r, release := newEnv(t, table()), observers.NewRegistry(), make(chan struct{})
		r.Observe("deaf", "t", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
			if ch.Attempt == 1 {
				<-release
			}
			return nil
		}, observers.Timeout(10*time.Second))
		reader := metric.NewManualReader()
		var quiet, loud logBuffer
		log := slog.New(slog.NewMultiHandler(slog.NewTextHandler(&quiet, nil), slog.NewTextHandler(&loud, &slog.HandlerOptions{Level: slog.LevelDebug})))
		w, _ := e.start(e.client, r, observers.Config{DisableCollection: true, Logger: log, MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
		e.set(e.client, "secret-row", "in", "1")
		shows := func(want int64) {
			t.Helper()
			s := w.Stats()
			report := w.Report().Worker
			if s.Overdue != want || s.Observers["deaf"].Overdue != want || report.Overdue != want || report.Observers["deaf"].Overdue != want {
				t.Errorf("%d overdue, in its report %d, want %d", s.Overdue, report.Overdue, want)
			}
			var got metricdata.ResourceMetrics
			if err := reader.Collect(e.ctx, &got); err != nil {
				t.Fatal(err)
			}
			if n, ok := gauges(got)["percolator.observer.overdue"]; !ok || n != float64(want) {
				t.Errorf("the gauge says %v, want %d", n, want)
			}
		}
		logged := func(text string, want int) {
			t.Helper()
			if got := quiet.String(); strings.Count(got, text) != want || strings.Contains(got, "secret") {
				t.Errorf("want %d × %q in the log:\n%s", want, text, got)
			}
		}
		time.Sleep(14 * time.Second)
		shows(0)
		logged("has not returned", 0)
		time.Sleep(time.Second + time.Millisecond)
		shows(1)
		time.Sleep(time.Minute)
		logged("level=WARN msg=\"observers: an observer ignores its context", 1)
		logged("observer=deaf table=t column=in", 1)
		if !strings.Contains(loud.String(), "row=secret-row") {
			t.Error("the log at debug level does not name the row")
		}
		close(release)
		e.idle(w)
		synctest.Wait()
		shows(0)
		logged("has returned", 1)
	})
}

// What ends at its timeout is not overdue, and a worker that stops names those that it leaves.
func TestOverdueRunsOfAStoppedWorker(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		e, r, release := newEnv(t, table()), observers.NewRegistry(), make(chan struct{})
		r.Observe("o", "t", "in", func(ctx context.Context, _ *percolator.Txn, ch observers.Change) error {
			if ch.Cell.Row == "deaf" {
				<-release
			}
			<-ctx.Done()
			return ctx.Err()
		})
		var log logBuffer
		w, stop := e.start(e.client, r, observers.Config{DisableCollection: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		e.set(e.client, "a", "in", "1")
		time.Sleep(time.Minute)
		if n := w.Stats().Overdue; n != 0 || strings.Contains(log.String(), "ignores its context") {
			t.Errorf("%d overdue\n%s", n, log.String())
		}
		e.set(e.client, "deaf", "in", "1")
		synctest.Wait()
		stop()
		if text := log.String(); !strings.Contains(text, "left observers behind") || !strings.Contains(text, "observers=[o]") {
			t.Errorf("the log says\n%s", text)
		}
		close(release)
	})
}
