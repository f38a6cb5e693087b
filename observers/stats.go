package observers

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/internal/scanning"
	"github.com/gopercolator/percolator/percolator/model"
)

// Stats counts what a worker has done since NewWorker, and what it has in hand. The counts are
// totals, not rates.
type Stats struct {
	ObserverStats // of all observers together

	Found         int64 // notifications that were new to this worker in scans and looks
	Dispatched    int64 // notifications of this client that were queued or joined a queued cell
	Dropped       int64 // notifications of this client for which there was no room
	Hinted        int64 // hints from other processes that were queued or joined a queued cell
	HandedOver    int64 // cells of the backlog that others took, or this worker when it asked for work
	Received      int64 // cells that other workers have handed over
	Searches      int64 // passes of a scanner through all tables
	Rows          int64 // dirty or locked rows that scanners read
	Teleports     int64 // times that a scanner met another one and went elsewhere
	LocksResolved int64 // locks of the dead that its scanners, or its client's looks, resolved
	Corrupt       int64 // cells that could not be decoded, counted on every encounter

	// Backlog is the age of the oldest unprocessed notification, parked ones apart, of columns that
	// the worker takes. StrandedFor is how long the oldest lock has been past its time to live.
	// Without a journal they are what the scanners met in their last pass. With one they are what
	// the adopter, or a look at the entries of this worker's own client, has found and could not
	// process or resolve; and Backlog is at least the age of that client's oldest change whose
	// observers are not known to have run. Both are as exact as the client's estimate of the
	// oracle's time.
	Backlog, StrandedFor time.Duration
	// ParkedCells counts cells that only wait for a parked observer, as met in the last pass. With
	// a journal, the worker that adopts counts every 10 s what the journal lists as parked.
	ParkedCells int

	Queued, Running int // cells now: waiting for a run or a pause; being run for

	Observers map[string]ObserverStats // by name
}

// ObserverStats counts the runs of one observer on one worker. A run, and an attempt at it, is one
// transaction, for a cell or for a batch of them.
type ObserverStats struct {
	Runs         int64 // that committed
	Cells        int64 // of these runs: as many as Runs, or more where an observer takes batches
	Attempts     int64 // calls of the observer
	Conflicts    int64 // attempts that lost against another transaction
	Errors       int64 // attempts that failed otherwise, before, in or after the call
	Panics       int64 // attempts that panicked
	Acknowledged int64 // cells for which there was nothing left to do
	Snoozes      int64 // attempts that postponed the change (Snooze)
	Retries      int64 // attempts after a failed one for the same change, also those of half a batch
	Parked       int64 // times that this worker parked a cell (ListParked lists those parked now)
	// Overdue are the attempts in flight now that have not returned 5 s after their Timeout, as the
	// observer ignores its context. Each holds one of Config.Concurrency until it returns.
	Overdue int64
}

// counters are an ObserverStats being counted.
type counters struct {
	runs, cells, attempts, conflicts, errors, panics, acknowledged, snoozes, retries, parked atomic.Int64
}

func (c *counters) load() ObserverStats {
	return ObserverStats{
		Runs: c.runs.Load(), Cells: c.cells.Load(), Attempts: c.attempts.Load(), Conflicts: c.conflicts.Load(),
		Errors: c.errors.Load(), Panics: c.panics.Load(), Acknowledged: c.acknowledged.Load(), Snoozes: c.snoozes.Load(),
		Retries: c.retries.Load(), Parked: c.parked.Load(),
	}
}

// workerCounters are the counts of Stats that belong to no single observer.
type workerCounters struct {
	found, dispatched, dropped, hinted, handedOver, received, resolved, corrupt atomic.Int64

	scans scanning.Counts
}

// Stats returns the counts so far. It reads them one after the other while the worker goes on, so
// they may not add up.
func (w *Worker) Stats() Stats {
	s := Stats{
		Found: w.counters.found.Load(), Dispatched: w.counters.dispatched.Load(), Dropped: w.counters.dropped.Load(), Hinted: w.counters.hinted.Load(),
		HandedOver: w.counters.handedOver.Load(), Received: w.counters.received.Load(),
		Searches: w.counters.scans.Searches.Load(), Rows: w.counters.scans.Rows.Load(),
		Teleports: w.counters.scans.Teleports.Load(), LocksResolved: w.counters.resolved.Load() + w.engine.Looker.Resolved.Load(), Corrupt: w.counters.corrupt.Load(),
		Observers: make(map[string]ObserverStats, len(w.coverage.runners)),
	}
	s.Queued, s.Running = w.queue.sizes()
	seen := w.behind()
	s.Backlog, s.StrandedFor, s.ParkedCells = seen.notification, seen.lock, seen.parked
	overdue := w.overdueRuns()
	for _, rn := range w.coverage.runners {
		o := rn.counters.load()
		o.Overdue = int64(overdue[rn])
		s.Observers[rn.name] = o
		s.Runs += o.Runs
		s.Cells += o.Cells
		s.Attempts += o.Attempts
		s.Conflicts += o.Conflicts
		s.Errors += o.Errors
		s.Panics += o.Panics
		s.Acknowledged += o.Acknowledged
		s.Snoozes += o.Snoozes
		s.Retries += o.Retries
		s.Parked += o.Parked
		s.Overdue += o.Overdue
	}
	return s
}

// reporting stores reports until ctx ends, so that a console in any process sees all of them with
// one read (admin.Admin.Reports).
func (w *Worker) reporting(ctx context.Context) {
	interval := w.cfg.ReportInterval
	reporter, err := membership.NewReporter(w.engine, w.name, interval)
	if err != nil {
		telemetry.Warn(w.log, "observers: this worker does not report", err)
		return
	}
	reporter.Run(ctx, rand.N(interval/10+1), func() (model.WorkerReport, bool) { return w.report(), true })
}

// report returns what this worker stores.
func (w *Worker) report() model.WorkerReport {
	r := w.Stats().Report()
	r.OldestMillis = w.behind().any.Milliseconds()
	r.Takes, r.Columns = w.coverage.registeredColumns(), w.coverage.fingerprint()
	return r
}

// Report is what this worker would report now (admin.Admin.Reports). It asks no server.
func (w *Worker) Report() model.Report { return membership.OwnReport(w.engine, w.name, w.report()) }

// Report returns s as a worker stores it for other processes to read, without the columns that the
// worker takes. Durations are in milliseconds.
func (s Stats) Report() model.WorkerReport {
	r := model.WorkerReport{
		ObserverReport: s.ObserverStats.report(),
		Found:          s.Found, Dispatched: s.Dispatched, Hinted: s.Hinted, Dropped: s.Dropped, Searches: s.Searches, Parked: s.ObserverStats.Parked,
		Queued: s.Queued, Running: s.Running,
		BacklogMillis: s.Backlog.Milliseconds(), LockMillis: s.StrandedFor.Milliseconds(),
		Observers: make(map[string]model.ObserverReport, len(s.Observers)),
	}
	for name, o := range s.Observers {
		r.Observers[name] = o.report()
	}
	return r
}

func (o ObserverStats) report() model.ObserverReport {
	return model.ObserverReport{
		Runs: o.Runs, Attempts: o.Attempts, Retries: o.Retries, Conflicts: o.Conflicts, Errors: o.Errors, Panics: o.Panics,
		Overdue: o.Overdue,
	}
}
