package tso

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strconv"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/gopercolator/percolator/tso/internal/record"
)

// Bounds of [ServerConfig] that others need as well.
const (
	minSessionLease = 100 * time.Millisecond
	maxSessionLease = time.Hour
	maxVersionBytes = 128
)

// ServerConfig configures a [Server]. The zero value is useful.
type ServerConfig struct {
	// Now is the wall clock from which timestamps take their value. nil: time.Now. The server calls
	// it from many goroutines, and gives up its lease as soon as this clock, or one of the two of
	// Uptime, says that the lease has run out.
	Now func() time.Time

	// Uptime returns what the two other clocks of the server's machine show, which only go forward:
	// the monotonic clock, which may stand still while the machine is suspended, and the boot-time
	// clock, which does not. nil: those of this machine.
	Uptime func() (monotonic, boot time.Duration)

	// Window is how much time's worth of timestamps, 4.096 million a second, the server reserves
	// ahead in the store. 0: 3 s; from 1 ms to 1 h. It is how far timestamps jump ahead of the
	// clock when the leader changes, and how long the leader goes on when the store does not
	// answer. Keep it well below percolator.Config.LockTTL (10 s).
	Window time.Duration

	// Lease is how long after the leader's death another server takes over. 0: 3 s; from 10 ms to 1
	// h. Several requests to the store have to fit into it. Servers of one oracle may have
	// different leases.
	Lease time.Duration

	// Advertise is the host:port, at most 512 bytes, that followers hand to clients when this
	// server leads. "": the listener's address, which must not be an unspecified one such as
	// 0.0.0.0.
	Advertise string

	// Credentials secure the connections of clients, see [TLSFiles]. nil: plaintext.
	Credentials credentials.TransportCredentials

	// AllowPlaintext permits plaintext on addresses other than loopback. false: Serve refuses it
	// with ErrInvalidArgument.
	AllowPlaintext bool

	// MaxConnections is how many connections may be open at once; further ones wait to be accepted.
	// One address may have PeerShare percent of them: the server closes any more. At most 512
	// connections may be in their handshake, PeerShare percent of the 512 for one address. 0: 4,096.
	MaxConnections int

	// MaxStreams is how many calls a connection may have in flight at once; more wait. A [Client]
	// has one for timestamps, and few others. 0: 100, the least that HTTP/2 recommends; at most
	// 1,048,576.
	MaxStreams int

	// MaxCalls is how many calls, of all connections, the server works on at once; it refuses more
	// with the status RESOURCE_EXHAUSTED. 0: 16,384. A call counts until its answer is written; if
	// the peer does not read it, the server closes the connection after 10 s. Large answers that
	// are not written yet may take 8 MiB in all; beyond that the server refuses calls, too. Two kinds
	// of calls count apart, each with the limit MaxCalls: those that wait for hints (at most 4,096)
	// and those that watch the server's health (at most 1,024).
	MaxCalls int

	// PeerShare is how many percent of each limit one peer may take, so that none shuts the others
	// out. 0: 25; from 1 to 100. A peer is an identity: that of its verified client certificate, or
	// its service account with ALTS. A client without one is an address, or an IPv6 network of 64
	// bits. Connections, and the 16 MiB that the server reads in a second, are always divided by
	// address. Choose more if most clients share an identity, or come through one address. Callers
	// in the server's own process may take all.
	PeerShare int

	// HandshakeTimeout is how long a new connection may take to prove that it speaks gRPC, with TLS
	// or without; then the server closes it. 0: 5 s.
	HandshakeTimeout time.Duration

	// IdleTimeout is how long the server keeps a connection without a call. A [Client] connects
	// again when it needs to. 0: 15 min.
	IdleTimeout time.Duration

	// Register is called with the gRPC server before it serves, to add services such as reflection,
	// which is off otherwise. Their messages are protobuf, whatever a call's content type says.
	// nil: none.
	Register func(*grpc.Server)

	// Version is the version of the program, for operators who ask the server for its status. At
	// most 128 bytes.
	Version string

	// RequireRecord makes a server that finds no record in its store refuse to start, with
	// ErrNoRecord. Set it wherever [Initialize] is part of the setup: a missing record then is a
	// loss of data. false: the server begins a new oracle.
	RequireRecord bool

	// Served returns the greatest timestamp that another source than the store knows to have been
	// handed out; 0: none. (Status.Served is a count.) A server calls it before it first reads the
	// record, and again after its transient errors. It refuses to start, with ErrCorrupt, when the
	// record's mark is below: then the record was lost, or restored from a backup. nil: nothing is
	// known.
	Served func(ctx context.Context) (Timestamp, error)

	// SessionLease is how long a session lives after its last renewal (see
	// [coordination.Sessions]). 0: 5 s; from 100 ms to 1 h. Clients renew three times in it. Make
	// it longer than Lease, so that a change of leader, which begins all leases anew, ends no
	// session.
	SessionLease time.Duration

	// MaxSessions is how many sessions may be open at once; more get ErrLimit. A process needs one.
	// 0: 10,000; at most 100,000.
	MaxSessions int

	// MaxRowLocks is how many rows may be locked at once (see [coordination.RowLocks]); more get
	// ErrLimit. Each takes some 100 bytes of memory. 0: 1,000,000; at most 10,000,000.
	MaxRowLocks int

	// MaxHints is how many hints may wait at once (see [coordination.Hints]), with 32 MiB of data;
	// the server drops more. The hints of one peer take at most PeerShare percent of both. 0:
	// 65,536; at most 1,000,000.
	MaxHints int

	// Logger gets the changes of leader and the failures of the store and the clock, and nothing
	// about requests. nil: no log.
	Logger *slog.Logger

	// MeterProvider gets the instruments percolator.tso.timestamps (handed out),
	// percolator.tso.store.writes, percolator.tso.elections, percolator.tso.leading (1 while this
	// server can serve), percolator.tso.sessions (open ones), percolator.tso.row_locks, and what
	// [Status] reports: percolator.tso.ready, percolator.tso.epoch, and in seconds
	// percolator.tso.lease.left, percolator.tso.window.left (timestamps reserved and not handed
	// out), percolator.tso.high_water.ahead (of this machine's clock) and
	// percolator.tso.store.silence. nil: none.
	MeterProvider metric.MeterProvider
}

// withDefaults returns cfg with all defaults filled in, or ErrInvalidArgument.
func (cfg ServerConfig) withDefaults() (ServerConfig, error) {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = noop.NewMeterProvider()
	}
	err := errors.Join(
		bound("Window", &cfg.Window, 3*time.Second, time.Millisecond, time.Hour),
		bound("Lease", &cfg.Lease, 3*time.Second, 10*time.Millisecond, record.MaxLease),
		bound("MaxConnections", &cfg.MaxConnections, 4096, 1, math.MaxInt),
		bound("MaxStreams", &cfg.MaxStreams, 100, 1, 1<<20),
		bound("MaxCalls", &cfg.MaxCalls, 16384, 1, math.MaxInt),
		bound("PeerShare", &cfg.PeerShare, 25, 1, 100),
		bound("HandshakeTimeout", &cfg.HandshakeTimeout, 5*time.Second, 0, math.MaxInt64),
		bound("IdleTimeout", &cfg.IdleTimeout, 15*time.Minute, 0, math.MaxInt64),
		bound("SessionLease", &cfg.SessionLease, 5*time.Second, minSessionLease, maxSessionLease),
		bound("MaxSessions", &cfg.MaxSessions, 10_000, 1, record.MaxStoredSessions/2),
		bound("MaxRowLocks", &cfg.MaxRowLocks, 1_000_000, 1, 10_000_000),
		bound("MaxHints", &cfg.MaxHints, 65_536, 1, 1_000_000),
	)
	if err == nil && cfg.Advertise != "" {
		if err = checkAddress(cfg.Advertise); err != nil {
			err = fmt.Errorf("advertise: %w", err)
		}
	}
	if len(cfg.Version) > maxVersionBytes || !utf8.ValidString(cfg.Version) {
		err = fmt.Errorf("the version is not at most %d bytes of UTF-8", maxVersionBytes)
	}
	if err != nil {
		return ServerConfig{}, fmt.Errorf("tso: %w: ServerConfig: %w", ErrInvalidArgument, err)
	}
	return cfg, nil
}

// bound gives a field that is 0 its default, and returns an error unless the field is then between
// least and most.
func bound[T int | time.Duration](name string, field *T, standard, least, most T) error {
	if *field == 0 {
		*field = standard
	}
	if *field < least || *field > most {
		return fmt.Errorf("%s %v is not between %v and %v", name, *field, least, most)
	}
	return nil
}

// checkAddress returns an error unless address is a host:port that a client can dial.
func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%.140q is not host:port", address)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("%.140q: the port is not between 1 and 65535", address)
	}
	if len(address) > record.MaxAddressBytes {
		return fmt.Errorf("%.140q… is longer than %d bytes", address, record.MaxAddressBytes)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		return fmt.Errorf("%q names no host", address)
	}
	return nil
}

// isLocal reports whether only this machine can reach l. A listener other than TCP (a Unix socket,
// a pipe in memory) is local.
func isLocal(l net.Listener) bool {
	tcp, ok := l.Addr().(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}
