package admin

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/internal/membership"
	"github.com/gopercolator/percolator/internal/telemetry"
)

// WorkerInfo is what a worker tells other workers and operators.
type WorkerInfo = membership.WorkerInfo

// Workers are the live workers and their bounds at one instant.
type Workers = membership.Workers

// TableBounds are row keys that divide a table into parts with similar numbers of rows.
type TableBounds = membership.TableBounds

// Report is what a process with a worker tells operators.
type Report = membership.Report

// WorkerReport is what package observers counts in one worker (observers.Stats).
type WorkerReport = membership.WorkerReport

// ObserverReport counts the runs of one observer (observers.ObserverStats).
type ObserverReport = membership.ObserverReport

// Reporter stores the reports of one process. One goroutine uses it.
type Reporter = membership.Reporter

// LatencyCounts is a histogram of durations since NewClient. The difference of two readings (Sub)
// is what happened between them.
type LatencyCounts = telemetry.LatencyCounts

// Limits of what workers announce and processes report.
const (
	// MaxWorkers is how many live workers Announce admits. Each counts them before it stores its own
	// entry, so workers that come at the same time may exceed it. A worker without a slot searches
	// everything.
	MaxWorkers = membership.MaxWorkers
	// MaxBoundKeys is how many bounds all tables have together; MaxBoundBytes is the size of one.
	MaxBoundKeys  = membership.MaxBoundKeys
	MaxBoundBytes = membership.MaxBoundBytes
	// MaxReports is how many processes report. Each counts them before it stores its own report, so
	// processes that begin at the same time may exceed it.
	MaxReports = membership.MaxReports
	// MaxReportBytes is the size of a report as it is stored. It omits observers that have no room.
	MaxReportBytes = membership.MaxReportBytes
	// MaxReportInterval is the longest time between two reports of a process.
	MaxReportInterval = membership.MaxReportInterval
)

// Register tells the other workers that this one lives, and returns what it told: it sets Started,
// if that is 0, Session and Expires. The worker announces itself again when Due says so. Errors:
// ErrInvalidArgument for an invalid name, ErrTooLarge for more than 4 KiB or if seen holds
// MaxWorkers others, and those of the store.
func (a *Admin) Register(ctx context.Context, w WorkerInfo, seen Workers) (WorkerInfo, error) {
	return membership.Register(ctx, a.e, w, seen)
}

// Due tells whether a worker has to announce itself again: its lease ends soon, seen does not list
// it, or its client has another session.
func (a *Admin) Due(w WorkerInfo, seen Workers) bool {
	return membership.Due(a.e, w, seen)
}

// Deregister takes a worker out of the list before its lease ends.
func (a *Admin) Deregister(ctx context.Context, w WorkerInfo) error {
	return membership.Deregister(ctx, a.e, w)
}

// Workers lists the live workers: those whose lease lasts and whose session has not ended, as far
// as the oracle says. It removes the entries of some dead workers, and what it cannot read; a
// worker that was removed wrongly announces itself again. It costs one read, one timestamp, and one
// question to an oracle that keeps sessions.
func (a *Admin) Workers(ctx context.Context) (Workers, error) {
	return membership.ListWorkers(ctx, a.e)
}

// InspectWorkers is Workers for tools: it changes nothing and leaves the entries of dead workers.
func (a *Admin) InspectWorkers(ctx context.Context) (Workers, error) {
	return membership.InspectWorkers(ctx, a.e)
}

// SetBounds replaces the bounds of tables, if no other worker has since seen was read, and tells
// whether it did. It cuts keys to MaxBoundBytes. ErrTooLarge: there are more than MaxBoundKeys.
func (a *Admin) SetBounds(ctx context.Context, seen Workers, next map[string]TableBounds) (bool, error) {
	return membership.SetBounds(ctx, a.e, seen, next)
}

// NewReporter returns the reporter of the process's worker of that name, 1 to 64 bytes of UTF-8,
// which is unique among all processes. The caller stores a report every interval, which is at most
// MaxReportInterval. ErrInvalidArgument: the name or the interval.
func (a *Admin) NewReporter(name string, interval time.Duration) (*Reporter, error) {
	return membership.NewReporter(a.e, name, interval)
}

// Reports lists the reports of live processes, by host and process, at most MaxReports. It costs
// one read, and a timestamp if the client has not got any lately. It omits what it cannot decode.
func (a *Admin) Reports(ctx context.Context) ([]Report, error) {
	return membership.Reports(ctx, a.e)
}
