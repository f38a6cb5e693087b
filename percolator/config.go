package percolator

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"cloud.google.com/go/bigtable"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/tso"
)

// BigtableConfig tunes Google's Bigtable client. The fields describe its version 1.58.0. Its
// sessions stay off.
type BigtableConfig struct {
	// MetricsProvider is bigtable.DefaultMetricsProvider{} for Google's own metrics of the client,
	// which it sends to Cloud Monitoring every minute and in Close. Its credentials need
	// roles/monitoring.metricWriter; without them, and with BIGTABLE_EMULATOR_HOST, it sends none.
	// nil or bigtable.NoopMetricsProvider{}: none. Google's client knows no other providers.
	MetricsProvider bigtable.MetricsProvider

	// Connections is how many gRPC connections the pool of an app profile has, each for at most 100
	// requests at once. 0: what option.WithGRPCConnectionPool says, otherwise 10. Connections that
	// the caller made (option.WithGRPCConn, BIGTABLE_EMULATOR_HOST) take the place of the pool.
	Connections int

	// KeepaliveTime is how long a connection may be silent before the client pings the server, with
	// or without requests in flight. The client replaces a connection without an answer within
	// KeepaliveTimeout. It pings earlier where requests wait: a connection that drops all packets
	// (a dead host, a NAT timeout) delays them by 5 s, then they are repeated on another. 0: 30 s
	// and 10 s, unless a gRPC dial option says otherwise. KeepaliveTime is at least 10 s; negative:
	// no pings. Connections to an emulator have none.
	KeepaliveTime, KeepaliveTimeout time.Duration

	// DisableDynamicChannelPool keeps the pool from growing and shrinking with the load. false: the
	// version decides; 1.58.0 keeps the size fixed as well.
	DisableDynamicChannelPool bool

	// DisableConnectionRecycler keeps the pool from replacing connections that are a week old.
	DisableConnectionRecycler bool

	// DirectAccess makes the client connect to Bigtable past Google's front ends where it can, on
	// Google Cloud. false: through them. The environment variable CBT_ENABLE_DIRECTPATH takes
	// precedence.
	DirectAccess bool
}

// google is the configuration as Google's client takes it.
func (cfg BigtableConfig) google() bigtable.ClientConfig {
	return bigtable.ClientConfig{
		MetricsProvider:           cfg.MetricsProvider,
		DisableDynamicChannelPool: cfg.DisableDynamicChannelPool,
		DisableConnectionRecycler: cfg.DisableConnectionRecycler,
		DisableDirectAccess:       !cfg.DirectAccess,
	}
}

// options are first, the caller's, and what Connections adds.
func (cfg BigtableConfig) options(first option.ClientOption, callers []option.ClientOption) []option.ClientOption {
	opts := slices.Concat([]option.ClientOption{first}, callers, store.Keepalive(cfg.KeepaliveTime, cfg.KeepaliveTimeout))
	if cfg.Connections > 0 {
		opts = append(opts, option.WithGRPCConnectionPool(cfg.Connections))
	}
	return opts
}

// Config configures a client. Project and Instance are required and name the Bigtable instance (any
// name will do on an emulator). Every other field may be zero. Fields named Disable… turn off
// what is on by default.
type Config struct {
	Project, Instance string

	// AppProfile is the Bigtable app profile; "" is the default one. In production it must route to
	// a single cluster and allow single-row transactions: conditional mutations on two clusters
	// would not exclude each other.
	AppProfile string

	// BackgroundAppProfile, if set, is the app profile of bulk reads, for which no transaction
	// waits: checks and adoption by the journal, sweeps, collection, exports, restores, backfills
	// and verifications of indexes, the lists of package admin, and, without a journal, the
	// workers' scans. Give it a low priority. It must route to the same cluster as AppProfile and
	// allow single-row transactions as well. It costs a second pool of connections. "": AppProfile.
	BackgroundAppProfile string

	// Bigtable tunes Google's client: its metrics, its connections, direct access. The zero value
	// has neither metrics nor direct access.
	Bigtable BigtableConfig

	// Oracle gives timestamps. nil: dial the servers that the environment variable
	// PERCOLATOR_TSO_ADDR names, with the certificates that tso.DialOptionsFromEnv finds. With an
	// oracle that keeps sessions (coordination.Sessions) other clients learn early that this
	// process has died: its locks carry the ID of its session and count as dead as soon as the
	// session has ended, and after LockTTL at the latest.
	Oracle tso.Oracle

	// Schema, if set, must equal the stored one; NewClient returns ErrSchemaMismatch otherwise.
	// nil: take the stored one.
	Schema *Schema

	// LockTTL is the age at which other clients may judge a lock dead, counted from when it was
	// placed or last refreshed. A long commit refreshes its locks, so LockTTL need only exceed the
	// longest pause of a healthy process. On a slow store locks live longer: four times the longest
	// request of the last seconds, up to Timing.RequestLifetime. 0: 10 s. From 100 ms to 1 h.
	LockTTL time.Duration

	// Retention is how far back snapshots reach. Collection goes by the Retention of the client
	// that collects, so give all clients of an instance the same one. A transaction older than half
	// of it gets ErrSnapshotTooOld from Commit. 0: 1 h. At least 1 min.
	Retention time.Duration

	// DisableBatching sends one request for each row that Get and GetMulti read, instead of joining
	// the rows of one call and of concurrent calls (section 2.5 of the paper). It is for
	// comparison.
	DisableBatching bool
	// DisablePrefetch sends one request for each column of a row that Get and GetMulti read,
	// instead of joining the columns of one call and reading ahead what transactions of the same
	// shape went on to read (section 2.5 of the paper). It is for comparison. With DisableBatching
	// as well, every cell is a request of its own.
	DisablePrefetch bool

	// DisableHints keeps this client from telling the oracle which cells it has notified, and from
	// asking for the cells that other processes notified. Hints (coordination.Hints) let a worker
	// in another process react within milliseconds instead of at its next scan. They hold row keys,
	// which the oracle's leader keeps in memory until a worker takes them. Without workers
	// elsewhere hints cost a request a second while this client writes.
	DisableHints bool

	// DisableReports keeps this client from storing its Stats in percolator_meta for the console
	// and admin.Admin.Reports. Reports cost one write of at most 4 KiB every 10 s, from 5 s after
	// NewClient on, and one timestamp a minute if the client requests no others. A worker reports
	// for its client. At most 1,024 clients of an instance report; later ones wait until others
	// have ended.
	DisableReports bool

	// MaxParallelism is how many requests one commit or GetMulti has in flight at once. 0: 64.
	MaxParallelism int

	// Logger receives rare events: a store or an oracle that does not answer, lock resolution that
	// failed, rows that phase two gave up. It never receives values. Workers (package observers) have
	// it, too. nil: nothing is logged, as a library does not write where its program has not asked it
	// to; what a call of the program meets is its error in any case. slog.Default() is a good choice.
	Logger *slog.Logger
	// MeterProvider receives the metrics that docs/TELEMETRY.md lists. nil: none, at no cost.
	MeterProvider metric.MeterProvider
	// TracerProvider receives a span for each call and, below it, for each step of the protocol,
	// without row keys and values. nil: none, at no cost.
	TracerProvider trace.TracerProvider
}

// withDefaults fills zero fields and refuses what cannot work.
func (cfg Config) withDefaults() (Config, error) {
	cfg.LockTTL = cmp.Or(cfg.LockTTL, 10*time.Second)
	cfg.Retention = cmp.Or(cfg.Retention, time.Hour)
	cfg.MaxParallelism = cmp.Or(cfg.MaxParallelism, 64)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	bad := func(field, must string) error {
		return fmt.Errorf("percolator: %w: Config.%s must be %s", ErrInvalidArgument, field, must)
	}
	switch {
	case cfg.Project == "" || cfg.Instance == "":
		return cfg, bad("Project and Config.Instance", "set")
	case cfg.Bigtable.Connections < 0:
		return cfg, bad("Bigtable.Connections", "0 or positive")
	case cfg.Bigtable.KeepaliveTime > 0 && cfg.Bigtable.KeepaliveTime < 10*time.Second:
		return cfg, bad("Bigtable.KeepaliveTime", "negative, 0 or at least 10 s")
	case cfg.Bigtable.KeepaliveTimeout < 0:
		return cfg, bad("Bigtable.KeepaliveTimeout", "0 or positive")
	case cfg.LockTTL < 100*time.Millisecond || cfg.LockTTL > time.Hour:
		return cfg, bad("LockTTL", "between 100 ms and 1 h")
	case cfg.Retention < time.Minute:
		return cfg, bad("Retention", "at least 1 min")
	case cfg.MaxParallelism < 1:
		return cfg, bad("MaxParallelism", "positive")
	}
	return cfg, nil
}

// settings is the part of the configuration that the engine needs.
func (cfg Config) settings() store.Settings {
	return store.Settings{
		Project: cfg.Project, Instance: cfg.Instance, LockTTL: cfg.LockTTL, Retention: cfg.Retention, MaxParallelism: cfg.MaxParallelism,
		DisableBatching: cfg.DisableBatching, DisablePrefetch: cfg.DisablePrefetch, DisableHints: cfg.DisableHints, Logger: cfg.Logger,
	}
}
