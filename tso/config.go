package tso

import (
	"context"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/gopercolator/percolator/tso/internal/record"
)

// Defaults and bounds of [ServerConfig].
const (
	defaultWindow         = 3 * time.Second
	defaultLease          = 3 * time.Second
	defaultMaxConnections = 4096
	defaultMaxStreams     = 256
	defaultMaxCalls       = 16384
	maxMaxStreams         = 1 << 20
	defaultHandshake      = 10 * time.Second
	defaultIdle           = 15 * time.Minute
	defaultSessionLease   = 5 * time.Second
	defaultMaxSessions    = 10_000
	defaultMaxRowLocks    = 1_000_000
	defaultMaxHints       = 65_536

	minWindow = time.Millisecond
	maxWindow = time.Hour
	minLease  = 10 * time.Millisecond

	minSessionLease = 100 * time.Millisecond
	maxSessionLease = time.Hour
	maxMaxSessions  = 100_000
	maxMaxRowLocks  = 10_000_000
	maxMaxHints     = 1_000_000

	maxVersionBytes = 128
)

// ServerConfig configures a [Server]. The zero value is useful.
type ServerConfig struct {
	// Now is the wall clock from which timestamps take their value. nil: time.Now. It
	// is called from many goroutines. Leases are measured by the process's monotonic
	// clock instead.
	Now func() time.Time

	// Window is how much time's worth of timestamps is reserved ahead in the store,
	// 4.096 million a second. 0: 3 s; from 1 ms to 1 h. It is how far timestamps jump
	// ahead of the clock when the leader changes, and how long the leader goes on
	// when the store does not answer. Keep it well below the time that locks live (10
	// s).
	Window time.Duration

	// Lease is how long after the leader has died another server leads. 0: 3 s; from
	// 10 ms to 1 h. Several requests to the store have to fit into it. Servers of one
	// oracle may have different leases.
	Lease time.Duration

	// Advertise is the host:port, at most 512 bytes, that followers hand to clients
	// when this server leads. "": the listener's address, which must then not be an
	// unspecified one such as 0.0.0.0.
	Advertise string

	// Credentials secure the connections of clients, see [TLSFiles]. nil: plaintext.
	Credentials credentials.TransportCredentials

	// AllowPlaintext permits plaintext on addresses other than loopback.
	AllowPlaintext bool

	// MaxConnections is how many clients may be connected at once; more wait to be
	// accepted. 0: 4,096.
	MaxConnections int

	// MaxStreams is how many calls a connection may have on the way at once; more
	// wait. A [Client] has one. 0: 256. At most 1,048,576.
	MaxStreams int

	// MaxCalls is how many calls, of all connections, the server works on at once;
	// more are refused with the status RESOURCE_EXHAUSTED. 0: 16,384. Those who watch
	// its health are not counted; there may be as many, and 1,024 at most.
	MaxCalls int

	// HandshakeTimeout is how long a new connection may take until it has shown that
	// it is one of gRPC, with TLS or without; then it is cut. 0: 10 s.
	HandshakeTimeout time.Duration

	// IdleTimeout is how long a connection without a call is kept. A [Client] connects
	// again when it needs to. 0: 15 min.
	IdleTimeout time.Duration

	// Register is called with the gRPC server before it serves, to add services to it,
	// such as reflection, which is off otherwise. nil: none.
	Register func(*grpc.Server)

	// Version is the version of the program, for operators who ask the server for its
	// status. At most 128 bytes.
	Version string

	// RequireRecord makes a server that finds no record in its store refuse to start,
	// with ErrNoRecord. Set it wherever [Initialize] is part of the setting up: a
	// missing record then is a loss of data. false: the server begins a new oracle.
	RequireRecord bool

	// Served returns a timestamp that is known, from elsewhere than the store, to have
	// been handed out, the greatest that is at hand; 0 when there is none. A server
	// asks once, before it reads the record when it starts, tries again while the
	// error may go away by itself, and refuses to start, with ErrCorrupt, when the
	// record's mark is below: then the record was lost, or restored from a backup.
	// nil: nothing is known.
	Served func(ctx context.Context) (Timestamp, error)

	// SessionLease is how long a session lives after its last renewal (see
	// [Sessions]). 0: 5 s; from 100 ms to 1 h. Clients renew three times in it. Longer
	// than Lease, so that a change of leader costs nobody's session; a change of leader
	// begins all leases anew.
	SessionLease time.Duration

	// MaxSessions is how many sessions may be open at once; more get ErrLimit. A process
	// needs one. 0: 10,000; at most 100,000.
	MaxSessions int

	// MaxRowLocks is how many rows may be locked at once (see [RowLocks]); more get
	// ErrLimit. Each takes some 100 bytes of memory. 0: 1,000,000; at most 10,000,000.
	MaxRowLocks int

	// MaxHints is how many hints may wait at once (see [Hints]), with 32 MiB of data;
	// more are thrown away. 0: 65,536; at most 1,000,000.
	MaxHints int

	// Logger gets the changes of leader and the failures of the store and the clock;
	// nothing on the way of a request. nil: no log.
	Logger *slog.Logger

	// MeterProvider gets the instruments percolator.tso.timestamps (handed out),
	// percolator.tso.store.writes, percolator.tso.elections,
	// percolator.tso.leading (1 while this server can serve), percolator.tso.sessions
	// (open ones), percolator.tso.row_locks, and what [Status] says:
	// percolator.tso.ready, percolator.tso.epoch, and in seconds
	// percolator.tso.lease.left, percolator.tso.window.left (timestamps reserved and not
	// handed out), percolator.tso.high_water.ahead (of this machine's
	// clock) and percolator.tso.store.silence. nil: none.
	MeterProvider metric.MeterProvider
}

// withDefaults returns cfg with all defaults filled in, or ErrInvalidArgument.
func (cfg ServerConfig) withDefaults() (ServerConfig, error) {
	setDefault(&cfg.Window, defaultWindow)
	setDefault(&cfg.Lease, defaultLease)
	setDefault(&cfg.MaxConnections, defaultMaxConnections)
	setDefault(&cfg.MaxStreams, defaultMaxStreams)
	setDefault(&cfg.SessionLease, defaultSessionLease)
	setDefault(&cfg.MaxSessions, defaultMaxSessions)
	setDefault(&cfg.MaxRowLocks, defaultMaxRowLocks)
	setDefault(&cfg.MaxHints, defaultMaxHints)
	setDefault(&cfg.MaxCalls, defaultMaxCalls)
	setDefault(&cfg.HandshakeTimeout, defaultHandshake)
	setDefault(&cfg.IdleTimeout, defaultIdle)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = noop.NewMeterProvider()
	}
	invalid := func(format string, args ...any) (ServerConfig, error) {
		return ServerConfig{}, fmt.Errorf("tso: %w: %s", ErrInvalidArgument, fmt.Sprintf(format, args...))
	}
	switch {
	case cfg.Window < minWindow || cfg.Window > maxWindow:
		return invalid("Window %v is not between %v and %v", cfg.Window, minWindow, maxWindow)
	case cfg.Lease < minLease || cfg.Lease > record.MaxLease:
		return invalid("Lease %v is not between %v and %v", cfg.Lease, minLease, record.MaxLease)
	case cfg.MaxConnections < 1:
		return invalid("MaxConnections %d is below 1", cfg.MaxConnections)
	case cfg.MaxStreams < 1 || cfg.MaxStreams > maxMaxStreams:
		return invalid("MaxStreams %d is not between 1 and %d", cfg.MaxStreams, maxMaxStreams)
	case cfg.SessionLease < minSessionLease || cfg.SessionLease > maxSessionLease:
		return invalid("SessionLease %v is not between %v and %v", cfg.SessionLease, minSessionLease, maxSessionLease)
	case cfg.MaxSessions < 1 || cfg.MaxSessions > maxMaxSessions:
		return invalid("MaxSessions %d is not between 1 and %d", cfg.MaxSessions, maxMaxSessions)
	case cfg.MaxHints < 1 || cfg.MaxHints > maxMaxHints:
		return invalid("MaxHints %d is not between 1 and %d", cfg.MaxHints, maxMaxHints)
	case cfg.MaxRowLocks < 1 || cfg.MaxRowLocks > maxMaxRowLocks:
		return invalid("MaxRowLocks %d is not between 1 and %d", cfg.MaxRowLocks, maxMaxRowLocks)
	case cfg.MaxCalls < 1:
		return invalid("MaxCalls %d is below 1", cfg.MaxCalls)
	case cfg.HandshakeTimeout < 0:
		return invalid("HandshakeTimeout %v is negative", cfg.HandshakeTimeout)
	case cfg.IdleTimeout < 0:
		return invalid("IdleTimeout %v is negative", cfg.IdleTimeout)
	case len(cfg.Version) > maxVersionBytes || !utf8.ValidString(cfg.Version):
		return invalid("Version is not at most %d bytes of UTF-8", maxVersionBytes)
	}
	if cfg.Advertise != "" {
		if err := checkAddress(cfg.Advertise); err != nil {
			return invalid("Advertise: %v", err)
		}
	}
	return cfg, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
