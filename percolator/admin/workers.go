package admin

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/internal/membership"
	"github.com/gopercolator/percolator/internal/telemetry"
)

// WorkerInfo is what a worker tells the others, and the people who look after them.
type WorkerInfo = membership.WorkerInfo

// Workers is the row at one instant.
type Workers = membership.Workers

// TableBounds are row keys that divide a table into parts with similar amounts of rows.
type TableBounds = membership.TableBounds

// Report is what a process with a worker tells those who look after the cluster.
type Report = membership.Report

// WorkerReport is what package observers counts in one worker (observers.Stats).
type WorkerReport = membership.WorkerReport

// ObserverReport counts the runs of one observer (observers.ObserverStats).
type ObserverReport = membership.ObserverReport

// Reporter stores the reports of one process. It is used by one goroutine.
type Reporter = membership.Reporter

// LatencyCounts is a histogram of durations since NewClient. What happened between two readings is
// their difference (Sub).
type LatencyCounts = telemetry.LatencyCounts

const (
	// MaxWorkers is how many live workers Announce lets in. As they are counted first and stored
	// afterwards, those that come at the same time may exceed it. A worker that finds no place
	// searches everything.
	MaxWorkers = membership.MaxWorkers
	// MaxBoundKeys is how many bounds all tables have together; MaxBoundBytes is the size of one.
	MaxBoundKeys  = membership.MaxBoundKeys
	MaxBoundBytes = membership.MaxBoundBytes
	// MaxReports is how many processes report. As they are counted first and stored afterwards, those
	// that begin at the same time may exceed it.
	MaxReports = membership.MaxReports
	// MaxReportBytes is the size of a report as it is stored. Observers that have no room are left out
	// of it.
	MaxReportBytes = membership.MaxReportBytes
	// MaxReportInterval is how seldom a process may report.
	MaxReportInterval = membership.MaxReportInterval
)

// LatencyBounds returns the upper bounds, inclusive, of the buckets of every LatencyCounts, but for
// the last bucket, which holds what is above them all. They are the same in every process of this
// version.
func LatencyBounds() []time.Duration {
	return telemetry.LatencyBounds()
}

// Announce tells the other workers that this one lives, and returns what it told: it sets Started,
// if that is 0, Session and Expires. It is due again after some time (Client.Due). Errors:
// ErrInvalidArgument for a name that is none, ErrTooLarge for more than 4 KiB or when there are
// MaxWorkers in seen already, and the store's.
func (a *Admin) Announce(ctx context.Context, w WorkerInfo, seen Workers) (WorkerInfo, error) {
	return membership.Announce(ctx, a.e, w, seen)
}

// Due tells whether a worker has to announce itself again: because others would take it for dead
// soon, or do already, or its session is another one.
func (a *Admin) Due(w WorkerInfo, seen Workers) bool {
	return membership.Due(a.e, w, seen)
}

// Withdraw takes a worker out of the list before its lease ends.
func (a *Admin) Withdraw(ctx context.Context, w WorkerInfo) error {
	return membership.Withdraw(ctx, a.e, w)
}

// Workers lists the workers that live: those whose lease lasts and whose session has not ended, as
// far as the oracle says. It removes the entries of some that are dead, and what cannot be read; a
// worker that was removed wrongly announces itself again. It costs one read, one timestamp, and one
// question to an oracle that keeps sessions.
func (a *Admin) Workers(ctx context.Context) (Workers, error) {
	return membership.ListWorkers(ctx, a.e)
}

// InspectWorkers is Workers for tools: it changes nothing, and leaves the entries of the dead where
// they are.
func (a *Admin) InspectWorkers(ctx context.Context) (Workers, error) {
	return membership.InspectWorkers(ctx, a.e)
}

// SetBounds replaces the bounds of tables, if nobody else has since seen was read, and tells
// whether it did. Keys are cut to MaxBoundBytes. ErrTooLarge: there are more than MaxBoundKeys of
// them.
func (a *Admin) SetBounds(ctx context.Context, seen Workers, next map[string]TableBounds) (bool, error) {
	return membership.SetBounds(ctx, a.e, seen, next)
}

// NewReporter returns one for the process's worker of that name, 1 to 64 bytes of UTF-8, which is
// unique among all processes. interval, at most MaxReportInterval, is how often it is going to
// report.
func (a *Admin) NewReporter(name string, interval time.Duration) (*Reporter, error) {
	return membership.NewReporter(a.e, name, interval)
}

// Reports lists the reports of the processes that live, by host and process, at most MaxReports. It
// costs one read, and a timestamp if the client has not got any lately. What cannot be decoded is
// passed over.
func (a *Admin) Reports(ctx context.Context) ([]Report, error) {
	return membership.Reports(ctx, a.e)
}
