package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/spanner"
	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/tso"
)

// serveFlags are the flags of "tso serve".
type serveFlags struct {
	listen, advertise string
	insecure          bool

	project, instance, appProfile string
	spanner                       string
	name                          string

	window, lease time.Duration
}

func newTSOServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a server of the timestamp oracle",
		Long: `Run a server of the timestamp oracle.

Any number of servers may run with the same store and name. One of them leads, the
others stand by and lead within the lease when it dies, or at once when it is
ended with SIGTERM or SIGINT, which hands the lease over.

The record of the oracle is kept in the Bigtable instance (--project, --instance)
or, with --spanner, in a Spanner database. Bigtable is for small set-ups: when a
replicated instance fails over to another cluster, the last writes may be missing
there, and timestamps may be handed out twice. Spanner has no such weakness.`,
		Example: `  percolator tso serve --project p --instance i
  percolator tso serve --listen 10.0.0.5:7070 --insecure --spanner projects/p/instances/i/databases/d`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:7070", "address to listen on")
	flags.StringVar(&f.advertise, "advertise", "", "host:port under which clients find this server (default the listening address)")
	flags.BoolVar(&f.insecure, "insecure", false, "allow plaintext on addresses other than loopback")
	flags.StringVar(&f.project, "project", "", "project of the Bigtable instance")
	flags.StringVar(&f.instance, "instance", "", "Bigtable instance")
	flags.StringVar(&f.appProfile, "app-profile", "", "Bigtable application profile: single-cluster routing, transactional writes")
	flags.StringVar(&f.spanner, "spanner", "", "Spanner database, projects/P/instances/I/databases/D, instead of Bigtable")
	flags.StringVar(&f.name, "name", "default", "name of the oracle")
	flags.DurationVar(&f.window, "window", 3*time.Second, "how much time's worth of timestamps is reserved ahead")
	flags.DurationVar(&f.lease, "lease", 3*time.Second, "how long after the leader's death another server leads")
	cmd.MarkFlagsRequiredTogether("project", "instance")
	cmd.MarkFlagsMutuallyExclusive("spanner", "project")
	cmd.MarkFlagsMutuallyExclusive("spanner", "app-profile")
	cmd.MarkFlagsOneRequired("spanner", "project")
	return cmd
}

func serve(cmd *cobra.Command, f serveFlags) (err error) {
	ctx := cmd.Context()
	logger := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	l, err := listen(ctx, f)
	if err != nil {
		return err
	}
	store, closeStore, err := f.openStore(ctx, logger)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	server, err := tso.NewServer(store, tso.ServerConfig{
		Window: f.window, Lease: f.lease, Advertise: f.advertise, AllowPlaintext: f.insecure, Logger: logger,
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	logger.Info("serving the oracle", "name", f.name, "address", l.Addr().String())
	return server.Serve(ctx, l)
}

// listen opens the listener, unless others could read along.
func listen(ctx context.Context, f serveFlags) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return nil, err
	}
	ip := l.Addr().(*net.TCPAddr).IP
	switch {
	case !ip.IsLoopback() && !f.insecure:
		err = fmt.Errorf("--listen %s is not a loopback address: plaintext there needs --insecure", f.listen)
	case ip.IsUnspecified() && f.advertise == "":
		err = fmt.Errorf("--listen %s is every address of this machine: clients need the one in --advertise", f.listen)
	default:
		return l, nil
	}
	return nil, errors.Join(err, l.Close())
}

// openStore opens the store of the oracle's record.
func (f serveFlags) openStore(ctx context.Context, logger *slog.Logger) (store tso.Store, closeStore func() error, err error) {
	if f.spanner != "" {
		db, err := spanner.NewClient(ctx, f.spanner)
		if err != nil {
			return nil, nil, fmt.Errorf("opening %s: %w", f.spanner, err)
		}
		logger.Info("the oracle's record is kept in Spanner", "database", f.spanner)
		return tso.NewSpannerStore(db, f.name), func() error { db.Close(); return nil }, nil
	}
	client, err := bigtable.NewClientWithConfig(ctx, f.project, f.instance,
		bigtable.ClientConfig{AppProfile: f.appProfile, DisableDirectAccess: true, DisableSession: true})
	if err != nil {
		return nil, nil, fmt.Errorf("opening Bigtable instance %s/%s: %w", f.project, f.instance, err)
	}
	logger.Info("the oracle's record is kept in Bigtable; after a failover of the instance to another cluster, stop all oracles and check it",
		"project", f.project, "instance", f.instance, "table", tso.BigtableTable)
	return tso.NewBigtableStore(client.Open(tso.BigtableTable), f.name), client.Close, nil
}
