package percolator

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/tso"
)

// Config is what a client needs to know. The zero value of every field is useful, except that Project and Instance must
// name the Bigtable instance (any name will do on an emulator).
type Config struct {
	Project, Instance string

	// AppProfile is the Bigtable app profile; "" is the default one. In production it must route to a single cluster
	// and allow transactional writes: two clusters must never both take this traffic.
	AppProfile string

	// Oracle gives timestamps. nil: dial the servers named by the environment variable PERCOLATOR_TSO_ADDR, with the certificates that
	// tso.DialOptionsFromEnv finds. An oracle that keeps sessions (tso.Sessions) lets others know early when this process has died:
	// its locks carry the id of its session and are dead when that has ended, at the latest after LockTTL.
	Oracle tso.Oracle

	// Schema, when set, must be the one stored in the instance (ErrSchemaMismatch otherwise). nil: take the stored one.
	Schema *Schema

	// LockTTL is how long after it was placed or refreshed a lock may be judged dead by others. Locks of a commit that
	// takes longer are refreshed, so it need only exceed the longest pause of a healthy process. 0: 10 s. From 100 ms to 1 h.
	LockTTL time.Duration

	// Retention is how far back snapshots reach. A transaction older than half of it refuses to commit. 0: 1 h. At least 1 min.
	Retention time.Duration

	// DisableBatching sends one request for each row that Get and GetMulti read, instead of joining those of one call and those of
	// concurrent ones (section 2.5 of the paper); for comparison.
	DisableBatching bool
	// DisablePrefetch sends one request for each column of a row that Get and GetMulti read, instead of joining those of one call and
	// reading ahead what transactions of the same shape went on to read (section 2.5 of the paper); for comparison. With
	// DisableBatching as well, every cell is a request of its own.
	DisablePrefetch bool

	// DisableHints keeps this client from telling the oracle which cells it has notified, and from asking for what others
	// notified. Hints (tso.Hints) let a worker in another process react in milliseconds instead of when its scan comes by.
	// They hold row keys, which the oracle's leader keeps in memory until a worker takes them. Without workers elsewhere they
	// cost a request a second, while this client writes.
	DisableHints bool

	// MaxParallelism is how many requests one commit or GetMulti has in flight at once. 0: 64.
	MaxParallelism int

	// Logger receives rare events: lock resolution that failed, phase two that was given up. Never values. nil: discard.
	Logger *slog.Logger
	// MeterProvider receives the metrics that docs/TELEMETRY.md lists. nil: none, at no cost.
	MeterProvider metric.MeterProvider
	// TracerProvider receives a span for each call and for each step of the protocol below it, without row keys and values. nil: none, at no
	// cost.
	TracerProvider trace.TracerProvider
}

// withDefaults fills what is zero and refuses what cannot work.
func (cfg Config) withDefaults() (Config, error) {
	cfg.LockTTL = cmp.Or(cfg.LockTTL, 10*time.Second)
	cfg.Retention = cmp.Or(cfg.Retention, time.Hour)
	cfg.MaxParallelism = cmp.Or(cfg.MaxParallelism, 64)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	bad := func(field, must string) error {
		return fmt.Errorf("percolator: %w: Config.%s must be %s", ErrInvalidArgument, field, must)
	}
	switch {
	case cfg.Project == "" || cfg.Instance == "":
		return cfg, bad("Project and Config.Instance", "set")
	case cfg.LockTTL < 100*time.Millisecond || cfg.LockTTL > time.Hour:
		return cfg, bad("LockTTL", "between 100 ms and 1 h")
	case cfg.Retention < time.Minute:
		return cfg, bad("Retention", "at least 1 min")
	case cfg.MaxParallelism < 1:
		return cfg, bad("MaxParallelism", "positive")
	}
	return cfg, nil
}

// settings is what the engine needs of the configuration.
func (cfg Config) settings() model.Settings {
	return model.Settings{
		Project: cfg.Project, Instance: cfg.Instance, LockTTL: cfg.LockTTL, Retention: cfg.Retention, MaxParallelism: cfg.MaxParallelism,
		DisableBatching: cfg.DisableBatching, DisablePrefetch: cfg.DisablePrefetch, DisableHints: cfg.DisableHints, Logger: cfg.Logger,
	}
}
