package tso

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// Defaults and bounds of a Client.
const (
	defaultTimeout     = 10 * time.Second
	defaultCallTimeout = time.Second

	maxTargets       = 64
	maxResponseBytes = 64 << 10
	windowBytes      = 1 << 20
	serverPingAfter  = 10 * time.Second
	serverPingWait   = 3 * time.Second
	maxReconnect     = time.Second // the longest pause between attempts to connect
)

// DialOption changes how [Dial] connects.
type DialOption func(*dialOptions)

type dialOptions struct {
	credentials credentials.TransportCredentials // nil: plaintext
	plaintext   bool                             // also to other machines
	timeout     time.Duration
	callTimeout time.Duration
	grpc        []grpc.DialOption
	boot        func() time.Duration // the boot-time clock
}

func newDialOptions(opts []DialOption) dialOptions {
	o := dialOptions{timeout: defaultTimeout, callTimeout: defaultCallTimeout, boot: newClock(nil).boot}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithTransportCredentials secures the connections, to the targets and to the leaders that they
// name; see [TLSFiles]. Default: plaintext, which Dial refuses unless the address is a loopback
// one.
func WithTransportCredentials(creds credentials.TransportCredentials) DialOption {
	return func(o *dialOptions) { o.credentials = creds }
}

// WithPlaintext permits plaintext to addresses other than loopback, where everyone on the network
// path can read timestamps and, worse, forge them: two transactions with one timestamp corrupt
// data. It is for networks that are trusted or encrypted below.
func WithPlaintext() DialOption {
	return func(o *dialOptions) { o.plaintext = true }
}

// WithTimeout sets how long a request keeps trying servers if its context does not end earlier.
// Default: 10 s. A caller that arrives while an earlier request is failing waits for that one to
// end, and then as long again for its own. Make it longer than the servers' lease, so that callers
// wait for a change of leader.
func WithTimeout(d time.Duration) DialOption {
	return func(o *dialOptions) { o.timeout = d }
}

// WithCallTimeout sets how long the client waits for one server before it tries another. Default: 1
// s.
func WithCallTimeout(d time.Duration) DialOption {
	return func(o *dialOptions) { o.callTimeout = d }
}

// WithGRPCDialOptions adds options to every connection, for instance interceptors.
func WithGRPCDialOptions(opts ...grpc.DialOption) DialOption {
	return func(o *dialOptions) { o.grpc = append(o.grpc, opts...) }
}

// checkPlaintext returns an error if others could tamper with a connection to address. A name
// other than localhost may be any machine's.
func (o dialOptions) checkPlaintext(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); o.credentials != nil || o.plaintext || host == "localhost" || ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("tso: %w: plaintext to %q, which is not a loopback address, needs TLS credentials, or WithPlaintext (%s=true)", ErrInvalidArgument, address, EnvInsecure)
}

// dial returns a connection to address, which connects when it is needed, and again when it breaks.
// The rule for targets holds for a leader that another server names as well.
func (o dialOptions) dial(address string) (*grpc.ClientConn, error) {
	if err := o.checkPlaintext(address); err != nil {
		return nil, err
	}
	creds := o.credentials
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	reconnect := backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxReconnect}
	return grpc.NewClient(address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: o.callTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: serverPingAfter, Timeout: serverPingWait}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponseBytes)),
		grpc.WithDisableServiceConfig(),
		// A window of fixed size: estimating a better one sends a ping for each answer, and an
		// answer is a few bytes.
		grpc.WithInitialWindowSize(windowBytes), grpc.WithInitialConnWindowSize(windowBytes),
		grpc.WithIdleTimeout(0), // a server that stands by has to be reached quickly
	}, o.grpc...)...)
}

// The environment variables that [DialOptionsFromEnv] reads: the three files of
// [TLSFiles], the name in the servers' certificates, and whether plaintext is allowed.
const (
	EnvCA         = "PERCOLATOR_TSO_CA"
	EnvCert       = "PERCOLATOR_TSO_CERT"
	EnvKey        = "PERCOLATOR_TSO_KEY"
	EnvServerName = "PERCOLATOR_TSO_SERVER_NAME"
	EnvInsecure   = "PERCOLATOR_TSO_INSECURE" // a boolean, as in Go: 1, true, 0, false …
)

// DialOptionsFromEnv returns the options of [Dial] that the environment asks for, so that a program
// needs no change to use TLS. Any of EnvCA, EnvCert and EnvServerName turns TLS on. Without them
// the client speaks plaintext, with other machines only if EnvInsecure is true. logger, which may
// be nil, is that of [TLSFiles]. ErrInvalidArgument: a file cannot be used, or EnvInsecure is no
// boolean.
func DialOptionsFromEnv(logger *slog.Logger) ([]DialOption, error) {
	files := TLSFiles{
		CA: os.Getenv(EnvCA), Cert: os.Getenv(EnvCert), Key: os.Getenv(EnvKey),
		ServerName: os.Getenv(EnvServerName), Logger: logger,
	}
	insecure := false
	if text := os.Getenv(EnvInsecure); text != "" {
		var err error
		if insecure, err = strconv.ParseBool(text); err != nil {
			return nil, fmt.Errorf("tso: %w: %s is neither true nor false", ErrInvalidArgument, EnvInsecure)
		}
	}
	switch {
	case files.CA != "" || files.Cert != "" || files.Key != "" || files.ServerName != "":
		creds, err := files.ClientCredentials()
		if err != nil {
			return nil, err
		}
		return []DialOption{WithTransportCredentials(creds)}, nil
	case insecure:
		return []DialOption{WithPlaintext()}, nil
	}
	return nil, nil
}
