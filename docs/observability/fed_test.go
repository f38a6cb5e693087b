package observability

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// watched is an instance with a journal, and what Prometheus sees of one process.
type watched struct {
	*testing.T
	*percolatortest.Env
	ctx      context.Context
	registry *prometheus.Registry
	measured percolatortest.ClientOption
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{T: t, ctx: fixture.Context(t), registry: prometheus.NewRegistry()}
	prom, err := otelprom.New(otelprom.WithRegisterer(w.registry), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
	fixture.Must(t, err)
	w.Env = percolatortest.New(t, &percolator.Schema{
		Tables: []percolator.Table{{Name: "t", Observed: []string{"in"}}},
		Timing: percolator.Timing{RequestLifetime: time.Second, MetaMaxAge: time.Second},
	})
	w.measured = percolatortest.Configure(func(cfg *percolator.Config) {
		cfg.MeterProvider = metric.NewMeterProvider(metric.WithReader(prom))
	})
	return w
}

// greatest is the greatest value of a metric, of the series that have the label value if it is not
// "".
func (w *watched) greatest(name, value string) (most float64) {
	w.Helper()
	families, err := w.registry.Gather()
	fixture.Must(w, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			has := value == ""
			for _, l := range m.GetLabel() {
				has = has || l.GetValue() == value
			}
			if f.GetName() == name && has {
				most = max(most, m.GetGauge().GetValue(), m.GetCounter().GetValue())
			}
		}
	}
	return most
}

func (w *watched) wait(name, value string, holds func(float64) bool) {
	w.Helper()
	fixture.Eventually(w, name, func() bool {
		time.Sleep(50 * time.Millisecond) // reading all metrics is work
		return holds(w.greatest(name, value))
	})
}

// work runs a worker whose observer fails for the row "bad" until the test ends.
func (w *watched) work(c *percolator.Client) {
	w.Helper()
	r := observers.NewRegistry()
	r.Observe("o", "t", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		if strings.HasPrefix(ch.Cell.Row, "bad") {
			return errors.New("it is bad")
		}
		return nil
	})
	worker, err := observers.NewWorker(c, r, observers.Config{MaxAttempts: 1, DisableCollection: true, SweepInterval: -1, ReportInterval: -1})
	fixture.Must(w, err)
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan error, 1)
	go func() { done <- worker.Run(ctx) }()
	w.Cleanup(func() { cancel(); <-done })
}

func positive(v float64) bool { return v > 0 }

// With a journal nothing scans, and what the alerts stand on is fed all the same.
func TestAlertsAreFedByTheJournal(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testAlertsAreFedByTheJournal)
}

func testAlertsAreFedByTheJournal(t *testing.T) {
	w := newWatched(t)
	fixture.CrashAfter(t, w.Env, fixture.IsCommit, "a", "stuck") // committed, and "stuck" is still locked
	fixture.CrashAfter(t, w.Env, fixture.IsCommit, "b", "corrupt")
	fixture.Plant(t, w.ctx, w.Env, "t", "corrupt", "lock", "other", 1000, "no lock")
	w.Clock.Advance(time.Hour)
	c := w.NewClient(w.measured)
	w.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Row == "stuck" && r.Method == percolatortest.CheckAndMutateRow {
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	w.work(c)
	fixture.Put(t, w.ctx, w.Client, "bad", "in", "1")
	w.wait("percolator_journal_turns_total", "done", positive)                                              // PercolatorNoWorker
	w.wait("percolator_journal_turns_total", "failed", positive)                                            // PercolatorAdoptionFailing
	w.wait("percolator_lock_expired_age_seconds", "", func(v float64) bool { return v > 3000 && v < 7200 }) // PercolatorStuckLocks
	w.wait("percolator_journal_corrupt_total", "", positive)                                                // PercolatorCorruptCells
	w.wait("percolator_notifications_parked", "", func(v float64) bool { return v == 1 })                   // PercolatorParkedRows
	if n := w.greatest("percolator_scan_rounds_total", ""); n != 0 {
		t.Errorf("%v rounds of a scanner", n)
	}
}

// A process that only writes tells how long its changes have been waiting for observers, and how
// long locks of its own that it cannot resolve have stood: nobody else knows while it lives.
func TestAWriterTellsWhatWaits(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testAWriterTellsWhatWaits)
}

func testAWriterTellsWhatWaits(t *testing.T) {
	w := newWatched(t)
	c := w.NewClient(w.measured)
	w.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Row == "stuck" && (r.Method == percolatortest.MutateRows || r.Method == percolatortest.CheckAndMutateRow && !r.Sets("lock")) {
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	fixture.Must(t, fixture.Update(w.ctx, c, func(tx *percolator.Txn) error {
		return errors.Join(tx.Set(fixture.Cell("a", "in"), nil), tx.Set(fixture.Cell("stuck", "c"), nil))
	}))
	w.Clock.Advance(time.Hour)
	within := func(v float64) bool { return v > 3000 && v < 7200 }
	advanced := func() { _, err := c.Engine().Clock.Next(w.ctx); fixture.Must(t, err) }
	advanced()
	w.wait("percolator_journal_notified_age_seconds", "", within) // PercolatorNotificationBacklog
	w.wait("percolator_journal_expired_age_seconds", "", within)  // PercolatorStuckLocks
	w.FaultsOf(c).Handle(nil)
	w.work(c)
	w.wait("percolator_journal_notified_age_seconds", "", func(v float64) bool { return v == 0 })
	w.wait("percolator_journal_expired_age_seconds", "", func(v float64) bool { return v == 0 })
}
