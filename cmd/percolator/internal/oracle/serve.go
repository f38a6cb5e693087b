// Package oracle has the commands of the timestamp oracle.
package oracle

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/reflection"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/tso"
)

// serveFlags are the flags of "tso serve".
type serveFlags struct {
	store StoreFlags
	log   cli.LogFlags
	admin adminFlags

	listen, data        string
	cert, key, clientCA string
	alts, reflection    bool
	server              tso.ServerConfig
}

func NewServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:  "serve",
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd, f) },
	}
	f.store.Add(cmd)
	f.log.Add(cmd)
	f.admin.add(cmd)
	cmd.Flags().StringVar(&f.data, "data", "", `Bigtable instance, projects/P/instances/I, whose transactions use this oracle: the server refuses a record that is older than the timestamps there; "none" for no comparison (default the instance of --project and --instance) [$PERCOLATOR_DATA]`)
	f.addListener(cmd)
	f.addLimits(cmd)
	return cmd
}

func (f *serveFlags) addListener(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:7070", "address to listen on [$PERCOLATOR_TSO_LISTEN]")
	flags.StringVar(&f.server.Advertise, "advertise", "", "host:port under which clients find this server (default the listening address) [$PERCOLATOR_TSO_ADVERTISE]")
	flags.StringVar(&f.cert, "tls-cert", "", "file of this server's certificate; turns TLS on [$PERCOLATOR_TSO_SERVER_CERT]")
	flags.StringVar(&f.key, "tls-key", "", "file of its private key [$PERCOLATOR_TSO_SERVER_KEY]")
	flags.StringVar(&f.clientCA, "tls-client-ca", "", "file of the authorities that sign clients' certificates (mutual TLS) [$PERCOLATOR_TSO_CLIENT_CA]")
	flags.BoolVar(&f.alts, "alts", false, "secure connections by ALTS, on Google Cloud [$PERCOLATOR_TSO_ALTS]")
	flags.BoolVar(&f.server.AllowPlaintext, "insecure", false, "allow plaintext on addresses other than loopback [$PERCOLATOR_TSO_SERVER_INSECURE]")
	flags.BoolVar(&f.reflection, "reflection", false, "offer gRPC reflection [$PERCOLATOR_TSO_REFLECTION]")
}

func (f *serveFlags) addLimits(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&f.server.Window, "window", 3*time.Second, "how much time's worth of timestamps to reserve ahead [$PERCOLATOR_TSO_WINDOW]")
	flags.DurationVar(&f.server.Lease, "lease", 3*time.Second, "how long after the leader's death another server leads [$PERCOLATOR_TSO_LEASE]")
	flags.IntVar(&f.server.MaxConnections, "max-connections", 4096, "how many clients may be connected; more wait [$PERCOLATOR_TSO_MAX_CONNECTIONS]")
	flags.IntVar(&f.server.MaxStreams, "max-streams", 100, "how many calls a connection may have in flight; more wait [$PERCOLATOR_TSO_MAX_STREAMS]")
	flags.IntVar(&f.server.MaxCalls, "max-calls", 16384, "how many calls may be in flight; more are refused [$PERCOLATOR_TSO_MAX_CALLS]")
	flags.IntVar(&f.server.PeerShare, "peer-share", 25, "how many percent of each limit one identity, or one address without identity, may take [$PERCOLATOR_TSO_PEER_SHARE]")
	flags.DurationVar(&f.server.HandshakeTimeout, "handshake-timeout", 5*time.Second, "when to cut a silent connection [$PERCOLATOR_TSO_HANDSHAKE_TIMEOUT]")
	flags.DurationVar(&f.server.IdleTimeout, "idle-timeout", 15*time.Minute, "when to close a connection without calls [$PERCOLATOR_TSO_IDLE_TIMEOUT]")
	flags.DurationVar(&f.server.SessionLease, "session-lease", 5*time.Second, "how long a session lives after its last renewal [$PERCOLATOR_TSO_SESSION_LEASE]")
	flags.IntVar(&f.server.MaxSessions, "max-sessions", 10_000, "how many sessions may be open; more are refused [$PERCOLATOR_TSO_MAX_SESSIONS]")
	flags.IntVar(&f.server.MaxRowLocks, "max-row-locks", 1_000_000, "how many rows may be locked; more are refused [$PERCOLATOR_TSO_MAX_ROW_LOCKS]")
	flags.IntVar(&f.server.MaxHints, "max-hints", 65_536, "how many hints may wait; more are dropped [$PERCOLATOR_TSO_MAX_HINTS]")
}

func serve(cmd *cobra.Command, f serveFlags) (err error) {
	ctx := cmd.Context()
	logger, err := f.log.Logger(cmd)
	if err != nil {
		return err
	}
	if err := f.store.Choose(cmd); err != nil {
		return err
	}
	creds, err := f.credentials(cmd, logger)
	if err != nil {
		return err
	}
	l, err := f.listener(ctx, creds != nil)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // its server has closed it, unless there was none
	adminListener, err := f.admin.listener(ctx)
	if err != nil {
		return err
	}
	if adminListener != nil {
		defer func() { _ = adminListener.Close() }()
	}
	store, closeStore, err := f.store.Open(ctx, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	telemetry, stopTelemetry, err := cli.StartTelemetry(ctx, "percolator-tso", logger)
	if err != nil {
		return err
	}
	defer stopTelemetry()
	cfg := f.config(creds, telemetry.MeterProvider(), logger)
	if cfg.Served, err = f.store.served(f.data, logger); err != nil {
		return err
	}
	server, err := tso.NewServer(store, cfg)
	if err != nil {
		return err
	}
	logger.Info("serving the oracle", "name", f.store.Name, "address", l.Addr().String(), "security", f.security(creds))
	return cli.Advise(f.serveBoth(ctx, server, l, adminListener, telemetry.Handler(), logger))
}

// serveBoth serves until ctx ends or one of the two servers fails. The admin endpoints
// live a little longer than the oracle, so that its end can be seen there.
func (f *serveFlags) serveBoth(ctx context.Context, server *tso.Server, l, adminListener net.Listener, metrics http.Handler, logger *slog.Logger) error {
	if adminListener == nil {
		return server.Serve(ctx, l)
	}
	logger.Info("serving /healthz, /readyz and /metrics", "address", adminListener.Addr().String())
	ended, end := context.WithCancel(context.WithoutCancel(ctx))
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer end()
		return server.Serve(ctx, l)
	})
	g.Go(func() error {
		return adminServer(newAdmin(server, metrics)).Serve(ended, adminListener)
	})
	return g.Wait()
}

func (f *serveFlags) config(creds credentials.TransportCredentials, meters metric.MeterProvider, logger *slog.Logger) tso.ServerConfig {
	cfg := f.server
	cfg.Credentials, cfg.Logger, cfg.MeterProvider = creds, logger, meters
	cfg.RequireRecord, cfg.Version = true, cli.ProgramVersion()
	if f.reflection {
		cfg.Register = func(s *grpc.Server) { reflection.Register(s) }
	}
	return cfg
}

// credentials returns what secures the connections, nil for plaintext.
func (f *serveFlags) credentials(cmd *cobra.Command, logger *slog.Logger) (credentials.TransportCredentials, error) {
	typed := cmd.Flags().Changed
	byTLS := typed("tls-cert") || typed("tls-key") || typed("tls-client-ca")
	switch {
	case f.alts && typed("alts") && byTLS:
		return nil, cli.Usagef("--alts and TLS exclude each other")
	case f.alts && !byTLS:
		return cli.ALTSServer()
	case f.cert == "" && f.key == "" && f.clientCA == "":
		return nil, nil
	}
	return tso.TLSFiles{Cert: f.cert, Key: f.key, CA: f.clientCA, Logger: logger}.ServerCredentials()
}

// security names what secures the connections, for the log.
func (f *serveFlags) security(creds credentials.TransportCredentials) string {
	switch {
	case creds == nil:
		return "none"
	case creds.Info().SecurityProtocol == "alts":
		return "ALTS"
	case f.clientCA != "":
		return "mutual TLS"
	}
	return "TLS"
}

// listener opens the listener, unless others could read along.
func (f *serveFlags) listener(ctx context.Context, secure bool) (net.Listener, error) {
	return cli.Listen(ctx, "listen", f.listen, func(ip net.IP) error {
		switch {
		case !ip.IsLoopback() && !secure && !f.server.AllowPlaintext:
			return cli.Usagef("--listen %s is not a loopback address: it needs --tls-cert and --tls-key, or --alts; plaintext there needs --insecure", f.listen)
		case ip.IsUnspecified() && f.server.Advertise == "":
			return cli.Usagef("--listen %s is every address of this machine: clients need the one in --advertise", f.listen)
		}
		return nil
	})
}
