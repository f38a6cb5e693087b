package tso

import (
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc/credentials"
)

// Defaults and bounds of [ServerConfig].
const (
	defaultWindow         = 3 * time.Second
	defaultLease          = 3 * time.Second
	defaultMaxConnections = 4096
	defaultMaxStreams     = 256

	minWindow = time.Millisecond
	maxWindow = time.Hour
	minLease  = 10 * time.Millisecond
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

	// Credentials secure the connections of clients. nil: plaintext.
	Credentials credentials.TransportCredentials

	// AllowPlaintext permits plaintext on addresses other than loopback.
	AllowPlaintext bool

	// MaxConnections is how many clients may be connected at once; more wait to be
	// accepted. 0: 4,096.
	MaxConnections int

	// MaxStreams is how many calls a connection may have on the way at once; more
	// wait. A [Client] has one. 0: 256.
	MaxStreams int

	// Logger gets the changes of leader and the failures of the store and the clock;
	// nothing on the way of a request. nil: no log.
	Logger *slog.Logger

	// MeterProvider gets the instruments percolator.tso.timestamps (handed out),
	// percolator.tso.store.writes, percolator.tso.elections and
	// percolator.tso.leading (1 while this server can serve). nil: none.
	MeterProvider metric.MeterProvider
}

// withDefaults returns cfg with all defaults filled in, or ErrInvalidArgument.
func (cfg ServerConfig) withDefaults() (ServerConfig, error) {
	setDefault(&cfg.Window, defaultWindow)
	setDefault(&cfg.Lease, defaultLease)
	setDefault(&cfg.MaxConnections, defaultMaxConnections)
	setDefault(&cfg.MaxStreams, defaultMaxStreams)
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
	case cfg.Lease < minLease || cfg.Lease > maxLease:
		return invalid("Lease %v is not between %v and %v", cfg.Lease, minLease, maxLease)
	case cfg.MaxConnections < 1:
		return invalid("MaxConnections %d is below 1", cfg.MaxConnections)
	case cfg.MaxStreams < 1:
		return invalid("MaxStreams %d is below 1", cfg.MaxStreams)
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
