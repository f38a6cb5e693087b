package admin

import (
	"context"

	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
)

// WorkerInfo is what a worker tells other workers and operators:
//
//	Name      string              // random, 1 to 64 bytes; it names the cell
//	Session   string              // of its client with the oracle; "": none
//	Started   tso.Timestamp       // when it registered first
//	Expires   tso.Timestamp       // by the oracle's clock, unless it registers again
//	Version   string              // of this module, as built
//	Observers []string            // the names of its observers
//	Columns   string              // identifies its columns: workers with equal sets share a table
//	Owns      string              // identifies its columns of which one worker runs all cells
//	Takes     map[string][][]byte // the columns that it takes, by table; nil if it does not tell
//
// TakesColumn(table, column) reports whether the worker takes a column, and whether it tells.
type WorkerInfo = membership.WorkerInfo

// Workers are the live workers and their bounds at one instant:
//
//	Now    tso.Timestamp          // later than every timestamp in it
//	Live   []WorkerInfo           // by name
//	Bounds map[string]TableBounds // by table
type Workers = membership.Workers

// TableBounds are row keys that divide a table into parts with similar numbers of rows:
//
//	Made tso.Timestamp // when a worker chose them
//	Keys []string      // in order, without repetition
type TableBounds = membership.TableBounds

// Report is what a client tells operators, by itself or by one of its workers:
//
//	Name    string // at most 64 bytes: its worker's, as in Workers, or else Client
//	Client  string // names the client that Stats are of: its workers report the same ones
//	Session string // of its client with the oracle; "": none
//	Host    string
//	PID     int
//	Version string        // of this module, as built
//	Started tso.Timestamp // when its client began
//	Written tso.Timestamp
//	Expires tso.Timestamp // the process is taken for dead then, or when its session has ended
//
//	Uptime time.Duration    // since NewClient, when Stats were read; the times above are estimates
//	Stats  percolator.Stats // of its client, since NewClient
//	Worker WorkerReport     // since NewWorker; empty without one
//
// HasWorker() tells a worker's report from that of a client without one.
type Report = membership.Report

// WorkerReport is what package observers counts in one worker (observers.Stats):
//
//	ObserverReport       // of all observers together
//	Found          int64 // notifications that looks by the journal, or scans, found
//	Dispatched     int64 // notifications of its own client
//	Hinted         int64 // notifications that other processes hinted at
//	Dropped        int64 // notifications of its own client without room in the queue
//	Searches       int64 // rounds of its scanners; 0 with a journal
//	Parked         int64 // times that it parked an observer of a cell
//	Queued         int   // cells, now
//	Running        int   // cells, now
//
//	BacklogMillis int64 // age of the oldest notification that it takes and is not parked
//	OldestMillis  int64 // the same of those that others take too, as far as it has met them
//	LockMillis    int64 // how long the oldest lock has been past its time to live
//
//	Observers map[string]ObserverReport // by name
//	LeftOut   int                       // observers for which there was no room
//
//	Takes   map[string][][]byte // the columns that the worker takes; nil where there was no room
//	Columns string              // identifies the set, as in WorkerInfo
type WorkerReport = membership.WorkerReport

// ObserverReport counts the runs of one observer (observers.ObserverStats):
//
//	Runs      int64 // that committed
//	Attempts  int64
//	Retries   int64
//	Conflicts int64
//	Errors    int64
//	Panics    int64
type ObserverReport = membership.ObserverReport

// LatencyCounts is a histogram of durations since NewClient. The difference of two readings (Sub)
// is what happened between them:
//
//	Buckets [19]int64 // of durations up to 100 µs, 200 µs, 500 µs, 1 ms … 20 s, 60 s, and above
//	Count   int64
//	Sum     time.Duration // nanoseconds in JSON
//
// Add returns the sum of two clients' counts. Quantile(q) estimates the duration that a share q
// (0 to 1) of the calls did not exceed. Mean is the average. Both are 0 without calls.
type LatencyCounts = telemetry.LatencyCounts

// Contention is how a client's Updates queue now, and where its transactions have conflicted:
//
//	Attempts int             // of Updates, under way
//	Waiting  int             // Updates that wait for an attempt
//	Limit    int             // of attempts at once
//	Cells    []ContendedCell // at most ten, the most contended first
type Contention = telemetry.Contention

// ContendedCell is a cell on which transactions of a client have conflicted:
//
//	Cell      string // as errors name it, at most 256 bytes of that
//	Conflicts int64  // those of a minute and more ago count half, a quarter, and so on
//	Waiting   int    // Updates that wait for their turn at it
type ContendedCell = telemetry.ContendedCell

// Limits of what workers announce and processes report.
const (
	// MaxWorkers is how many live workers are listed. Each counts them before it stores its own
	// entry, so workers that start at the same time may exceed it. A worker without a place
	// searches everything.
	MaxWorkers = membership.MaxWorkers
	// MaxReports is how many clients and workers report, the last MaxWorkers of them only workers.
	// Each counts them before it stores its first report, so those that begin at the same time may
	// exceed it.
	MaxReports = membership.MaxReports
)

// Workers lists the live workers: those whose lease lasts and whose session has not ended, as far
// as the oracle says. It costs one read, one timestamp, and one question to an oracle that keeps
// sessions. It leaves the entries of dead workers to the workers.
func (a *Admin) Workers(ctx context.Context) (Workers, error) {
	return membership.Directory{Engine: a.e}.Inspect(ctx)
}

// Reports lists the reports of live clients and workers, by host and process, at most MaxReports:
// those that have not expired and whose session has not ended, as far as the oracle says. It costs
// one read, one question to an oracle that keeps sessions, and a timestamp if the client has not
// got any lately. It omits what it cannot decode.
func (a *Admin) Reports(ctx context.Context) ([]Report, error) {
	return membership.Reports(ctx, a.e)
}
