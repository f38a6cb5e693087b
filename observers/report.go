package observers

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/gopercolator/percolator/internal/membership"
	"github.com/gopercolator/percolator/internal/retry"
	"github.com/gopercolator/percolator/percolator/admin"
)

// Every worker stores reports, so that a console in any process sees all of them with one read
// (admin.Admin.Reports).
const (
	reportInterval    = 10 * time.Second
	reportTimeout     = 5 * time.Second
	minReportTimeout  = time.Second
	deregisterTimeout = 2 * time.Second
)

// reporting stores reports until ctx ends.
func (w *Worker) reporting(ctx context.Context) {
	interval := w.cfg.ReportInterval
	reporter, err := membership.NewReporter(w.engine, w.name, interval)
	if err != nil {
		w.log.Warn("observers: this worker does not report", "err", err)
		return
	}
	keepReporting(ctx, interval, func(within context.Context) {
		if err := reporter.Store(within, w.report()); err != nil && ctx.Err() == nil {
			w.log.Debug("observers: a report was not stored", "err", err)
		}
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deregisterTimeout)
	defer cancel()
	if err := reporter.Remove(ctx); err != nil {
		w.log.Debug("observers: the report was not removed, and expires", "err", err)
	}
}

// keepReporting calls store every interval, or up to a fifth sooner: processes started together
// should not write together. The first call comes soon. One that gets no answer does not put the
// next one off, so two in a row do not make the process look dead (membership.Report).
func keepReporting(ctx context.Context, interval time.Duration, store func(ctx context.Context)) {
	for pause := rand.N(interval/10 + 1); retry.Sleep(ctx, pause) == nil; {
		begun := time.Now()
		within, cancel := context.WithTimeout(ctx, min(reportTimeout, max(interval*3/5, minReportTimeout)))
		store(within)
		cancel()
		pause = interval - rand.N(interval/5+1) - time.Since(begun)
	}
}

// report returns what this worker stores.
func (w *Worker) report() admin.WorkerReport {
	r := w.Stats().Report()
	r.Takes, r.Columns = w.coverage.registeredColumns(), w.coverage.fingerprint()
	return r
}

// Report returns s as a worker stores it for other processes to read, without the columns that the
// worker takes. Durations are in milliseconds.
func (s Stats) Report() admin.WorkerReport {
	r := admin.WorkerReport{
		ObserverReport: s.ObserverStats.report(),
		Found:          s.Found, Dispatched: s.Dispatched, Hinted: s.Hinted, Dropped: s.Dropped, Searches: s.Searches, Parked: s.ObserverStats.Parked,
		Queued: s.Queued, Running: s.Running,
		BacklogMillis: s.Backlog.Milliseconds(), LockMillis: s.StrandedFor.Milliseconds(),
		Observers: make(map[string]admin.ObserverReport, len(s.Observers)),
	}
	for name, o := range s.Observers {
		r.Observers[name] = o.report()
	}
	return r
}

func (o ObserverStats) report() admin.ObserverReport {
	return admin.ObserverReport{
		Runs: o.Runs, Attempts: o.Attempts, Retries: o.Retries, Conflicts: o.Conflicts, Errors: o.Errors, Panics: o.Panics,
	}
}
