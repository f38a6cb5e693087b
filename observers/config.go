package observers

import (
	"cmp"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/gopercolator/percolator/internal/membership"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// Column names a column of a table.
type Column struct{ Table, Name string }

// Config is how a worker works. The zero value is useful.
type Config struct {
	// Concurrency is how many runs are under way at once, half of them at most for cells whose
	// observer has failed for the same change before. 0: 16 × GOMAXPROCS.
	Concurrency int
	// Scanners is how many goroutines search the tables for notifications and stranded locks. 0: 2.
	Scanners int
	// ScanInterval is the pause between two searches by one scanner. 0: adaptive, from 50 ms after a
	// search that found something new, doubling up to 2 s while there is nothing.
	ScanInterval time.Duration
	// MaxAttempts is after how many attempts at a change a cell is parked. 0: 20. Attempts for which
	// the worker could not reach the store, before the observer was called or when it committed, do
	// not count.
	MaxAttempts int
	// DrainTimeout is how long Run waits for the runs that are under way when its context ends; after
	// that they are cancelled. 0: 10 s.
	DrainTimeout time.Duration

	// MinBackoff and MaxBackoff bound the pause before a cell is tried again: it starts with
	// MinBackoff, doubles with each failure in a row up to MaxBackoff, and is shortened at random by
	// up to a half. 0: 10 ms and 5 s. After a conflict the pause is at most a tenth of MaxBackoff:
	// somebody else made progress, so the next attempt has good prospects. (An observer whose runs
	// conflict with each other has fewer of them under way at once.)
	MinBackoff, MaxBackoff time.Duration
	// QueueLength bounds how many directly dispatched cells wait in memory. 0: 65,536, which is 20 MB
	// and the row keys. Notifications that do not fit are left to the scan.
	QueueLength int
	// DisableDispatch leaves everything to the scan: what this process's own client has just written,
	// and what the clients of other processes hint at; for comparison.
	DisableDispatch bool
	// Columns are the columns that this worker takes; each of them needs an observer, and observers of
	// other columns do not run here. nil: every observed and weak column of the schema.
	Columns []Column

	// RowLocks keeps the scanners of different workers out of each other's way. nil: the oracle's of
	// the worker's client, if it keeps any (tso.RowLocks), unless DisableRowLocks is set. Without
	// them, or while they do not answer, workers do some work twice, which transactions make harmless.
	RowLocks        tso.RowLocks
	DisableRowLocks bool

	// Partition divides the key space of every observed table among the live workers that set it and
	// take the same columns: each searches its own part, and everything now and then. See the package
	// comment. Workers that do not set it search everything.
	Partition bool

	// DisableCollection keeps this worker from removing old versions. At least one worker of an
	// instance should do it; how many try does not matter, as one at a time gets the lease
	// (admin.Collector).
	DisableCollection bool
	// Collector is how it is done.
	Collector admin.CollectorConfig

	// ReportInterval is how often this worker stores a report on itself for those who look after the
	// cluster (percolator.Client.Reports): a write of at most 4 KiB. 0: 10 s; negative: never. At most
	// 10 min.
	ReportInterval time.Duration

	// MeterProvider and TracerProvider receive the metrics and the span of each run that
	// docs/TELEMETRY.md lists. nil: those of the worker's client.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider

	// Logger receives failures (with the names of observer, table and column) and, at debug level
	// only, row keys and the texts of errors. Never values. nil: discard.
	Logger *slog.Logger
}

// withDefaults fills what is zero and refuses what cannot work.
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
	cfg.ReportInterval = cmp.Or(cfg.ReportInterval, reportInterval)
	if cfg.ReportInterval > membership.MaxReportInterval {
		return cfg, fmt.Errorf("observers: %w: Config.ReportInterval is more than %v", percolator.ErrInvalidArgument, membership.MaxReportInterval)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
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
