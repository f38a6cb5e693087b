package observers

import (
	"context"
	"math/rand/v2"

	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/percolator/admin"
)

// reporting stores reports until ctx ends, so that a console in any process sees all of them with
// one read (admin.Admin.Reports).
func (w *Worker) reporting(ctx context.Context) {
	interval := w.cfg.ReportInterval
	reporter, err := membership.NewReporter(w.engine, w.name, interval)
	if err != nil {
		w.log.Warn("observers: this worker does not report", "err", err)
		return
	}
	reporter.Run(ctx, rand.N(interval/10+1), func() (admin.WorkerReport, bool) { return w.report(), true })
}

// report returns what this worker stores.
func (w *Worker) report() admin.WorkerReport {
	r := w.Stats().Report()
	r.OldestMillis = w.behind().any.Milliseconds()
	r.Takes, r.Columns = w.coverage.registeredColumns(), w.coverage.fingerprint()
	return r
}

// Report is what this worker would report now (admin.Admin.Reports). It asks no server.
func (w *Worker) Report() admin.Report { return membership.OwnReport(w.engine, w.name, w.report()) }

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
