package observers

import (
	"cmp"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso/coordination"
)

// Column names a column of a table.
type Column struct{ Table, Name string }

// Config configures a worker. The zero value is useful.
type Config struct {
	// Concurrency is how many runs, each for a cell or a batch, may be in flight at once. At most
	// half of them are for cells whose observer has already failed for the same change. 0: 16 ×
	// GOMAXPROCS.
	Concurrency int
	// Scanners is the number of goroutines that search the tables for notifications and stranded
	// locks, where the instance has no journal or builds it. 0: 2.
	Scanners int
	// ScanInterval is the pause between two searches by one scanner. 0: adaptive, from 50 ms after
	// a search that found something new, doubling up to 2 s while there is nothing.
	ScanInterval time.Duration
	// MaxAttempts is the number of attempts at a change after which the worker parks the cell. An
	// attempt does not count if the store or the oracle was unreachable before the observer was
	// called or during the commit, or if a repair, or an import into a table that it reads, has
	// ended meanwhile. The lock of another transaction, which may have died, never parks a cell:
	// the worker tries again for as long as that lock lasts. 0: 20.
	MaxAttempts int
	// DrainTimeout is how long Run waits for runs in flight when its context ends; then it cancels
	// them. 0: 10 s.
	DrainTimeout time.Duration

	// MinBackoff and MaxBackoff bound the pause before the next attempt at a cell. It starts at
	// MinBackoff, doubles with each failure in a row up to MaxBackoff, and is shortened at random
	// by up to half. After a conflict it is at most MaxBackoff/10: another transaction made
	// progress, so the next attempt is likely to succeed. 0: 10 ms and 5 s.
	MinBackoff, MaxBackoff time.Duration
	// Grace is how long this worker leaves alone a notification that it finds in a search, as
	// another worker may have it in its queue. The time counts after the Collapse, MaxWait and
	// After of the observers. It is twice as long for cells that this worker has handed over, and 0
	// for what a dead process has left. 0: 5 s; negative: the worker runs whatever it finds.
	Grace time.Duration
	// QueueLength bounds how many directly dispatched cells wait in memory; the journal leads to
	// the rest, or a scan without one. 0: 65,536, which take 20 MB and their row keys.
	QueueLength int
	// DisableDispatch keeps the worker from running at once what its own client writes and what
	// other clients hint at: it finds them by the journal, or without one by a scan. It is for
	// comparison.
	DisableDispatch bool
	// Columns are the columns that this worker takes. Each needs an observer in the registry;
	// registered observers of other columns do not run here. nil: every observed and weak column of
	// the schema. Where several schemas share the instance, that is every schema with a table that
	// has an observer in the registry.
	Columns []Column

	// RowLocks keeps the scanners of different workers apart, where there is no journal or it is
	// building. nil: those of the client's oracle if it keeps any (coordination.RowLocks), unless
	// DisableRowLocks is set. Without them, or while they do not answer, workers do some work
	// twice, which transactions make harmless.
	RowLocks        coordination.RowLocks
	DisableRowLocks bool

	// Partition divides every observed table among the live workers that set it and take the same
	// columns: each searches its own share, and now and then everything. See the package comment.
	// Workers that do not set it search everything. With a journal there is nothing to divide.
	Partition bool

	// DisableCollection keeps this worker from removing old versions. Leave it false on at least one
	// worker of an instance. Any number may collect: one at a time holds the lease
	// (admin.Collector).
	DisableCollection bool
	// Collector configures the removal of old versions.
	Collector admin.CollectorConfig

	// SweepInterval is how often one of the workers searches all tables for work that the journal
	// has missed (admin.Sweeper). A journal that is building is swept at once. 0: 7 days; negative:
	// this worker never sweeps, for a worker whose schema lacks a table of the instance.
	SweepInterval time.Duration

	// ReportInterval is how often this worker stores a report about itself and its client
	// (admin.Admin.Reports), a write of at most 4 KiB. 0: 10 s; negative: never, and the client
	// reports by itself (percolator.Config.DisableReports). At most 10 min.
	ReportInterval time.Duration

	// MeterProvider and TracerProvider receive the metrics, and the span of each run, that
	// docs/TELEMETRY.md lists. nil: those of the worker's client.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider

	// Logger receives failures with the names of observer, table and column, and the text of the
	// error that the observer has returned, or of its panic, at most 512 bytes. What errors of this
	// module in its chain say of rows is for level Debug, as are row keys; what stands in the text
	// instead is "percolator conflict" and the like. Values are in it only if the observer puts them
	// there. While the store or the oracle does not answer, the worker says so once. nil: that of
	// the worker's client (percolator.Config.Logger).
	Logger *slog.Logger
	// HideErrors leaves the texts of observers' errors and panics to level Debug, where they may
	// hold what a log must not keep.
	HideErrors bool
}

// withDefaults replaces zero values and rejects invalid ones.
func (cfg Config) withDefaults() (Config, error) {
	if err := cmp.Or(
		setDefault("Concurrency", &cfg.Concurrency, 16*runtime.GOMAXPROCS(0)),
		setDefault("Scanners", &cfg.Scanners, 2),
		setDefault("MaxAttempts", &cfg.MaxAttempts, 20),
		setDefault("QueueLength", &cfg.QueueLength, 1<<16),
		setDefault("ScanInterval", &cfg.ScanInterval, 0),
		setDefault("DrainTimeout", &cfg.DrainTimeout, 10*time.Second),
		setDefault("MinBackoff", &cfg.MinBackoff, 10*time.Millisecond),
		setDefault("MaxBackoff", &cfg.MaxBackoff, 5*time.Second),
	); err != nil {
		return cfg, err
	}
	cfg.MaxBackoff = max(cfg.MaxBackoff, cfg.MinBackoff)
	cfg.Grace = cmp.Or(cfg.Grace, 5*time.Second)
	cfg.ReportInterval = cmp.Or(cfg.ReportInterval, membership.ReportInterval)
	if cfg.ReportInterval > membership.MaxReportInterval {
		return cfg, fmt.Errorf("observers: %w: Config.ReportInterval is more than %v", percolator.ErrInvalidArgument, membership.MaxReportInterval)
	}
	return cfg, nil
}

func setDefault[T int | time.Duration](field string, value *T, zero T) error {
	if *value < 0 {
		return fmt.Errorf("observers: %w: Config.%s is negative", percolator.ErrInvalidArgument, field)
	}
	*value = cmp.Or(*value, zero)
	return nil
}
