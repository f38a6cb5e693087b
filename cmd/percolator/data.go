package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/serve/exporters"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

// instanceName names a Bigtable instance.
type instanceName struct{ project, instance, appProfile string }

func (n *instanceName) add(flags *pflag.FlagSet) {
	flags.StringVar(&n.project, "project", "", "project of the Bigtable instance [$PERCOLATOR_PROJECT]")
	flags.StringVar(&n.instance, "instance", "", "Bigtable instance [$PERCOLATOR_INSTANCE]")
	flags.StringVar(&n.appProfile, "app-profile", "", "Bigtable application profile: single-cluster routing, transactional writes [$PERCOLATOR_APP_PROFILE]")
	markConnection(flags, "project", "instance", "app-profile")
}

func (n instanceName) check() error {
	if n.project == "" || n.instance == "" {
		return usagef("--project and --instance, or PERCOLATOR_PROJECT and PERCOLATOR_INSTANCE, are needed")
	}
	return nil
}

func (n instanceName) readSchema(ctx context.Context) (admin.StoredSchema, error) {
	return admin.ReadSchema(ctx, n.project, n.instance, n.appProfile, bigtableOptions(ctx)...)
}

func (n instanceName) planSchema(ctx context.Context, s *percolator.Schema) (admin.SchemaPlan, error) {
	return admin.PlanSchema(ctx, n.project, n.instance, n.appProfile, s, bigtableOptions(ctx)...)
}

// dataFlags name a Bigtable instance with tables of transactions, and its oracle.
type dataFlags struct {
	instanceName
	background string // app profile of background work
	oracle     clientFlags
}

// add adds the flags; timeout is how long the whole command may take by default.
func (f *dataFlags) add(cmd *cobra.Command, timeout time.Duration) {
	f.instanceName.add(cmd.Flags())
	cmd.Flags().StringVar(&f.background, "background-app-profile", "", "application profile for what passes over tables, of low priority, for the same cluster (default that of --app-profile) [$PERCOLATOR_BACKGROUND_APP_PROFILE]")
	markConnection(cmd.Flags(), "background-app-profile")
	f.oracle.add(cmd, timeout)
	// The flag limits the whole command, so the environment's limit of a request does not apply.
	cmd.Flags().Lookup("timeout").Usage = "how long the command may take"
}

// queryFlags are those of a command that prints what it has found or done.
type queryFlags struct {
	dataFlags
	output outputFlag
}

func (f *queryFlags) add(cmd *cobra.Command, timeout time.Duration) {
	f.dataFlags.add(cmd, timeout)
	f.output.add(cmd)
}

// action is what a command does with a client. Arguments are names, without the quotes in which
// they may have been given.
type action func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error

// run is the RunE of a command that does something with a client.
func (f *dataFlags) run(do action, configure ...func(*percolator.Config)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		named, err := names(args)
		if err != nil {
			return err
		}
		return f.with(cmd, func(ctx context.Context, c *percolator.Client) error { return do(ctx, cmd, c, named) }, configure...)
	}
}

// oracleTimeout is how long one request to the oracle may take.
const oracleTimeout = 10 * time.Second

// with opens a client and calls do with it, for as long as --timeout allows. What differs from the
// usual configuration, configure says.
func (f *dataFlags) with(cmd *cobra.Command, do func(ctx context.Context, c *percolator.Client) error, configure ...func(*percolator.Config)) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.oracle.timeout)
	defer cancel()
	telemetry, stop, err := startTelemetry(context.WithoutCancel(ctx), "percolator", slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
	if err != nil {
		return err
	}
	defer stop()
	c, end, err := f.open(ctx, cmd, telemetry, configure...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	return do(ctx, c)
}

// open opens a client and its connection to the oracle.
func (f *dataFlags) open(
	ctx context.Context, cmd *cobra.Command, telemetry *exporters.Exporters, configure ...func(*percolator.Config),
) (c *percolator.Client, end func() error, err error) {
	requests := f.oracle
	requests.timeout = min(requests.timeout, oracleTimeout)
	oracle, err := requests.dial(ctx, cmd)
	if err != nil {
		return nil, nil, err
	}
	cfg := percolator.Config{
		Project: f.project, Instance: f.instance, AppProfile: f.appProfile, BackgroundAppProfile: f.background, Oracle: oracle,
		MeterProvider: telemetry.MeterProvider(), TracerProvider: telemetry.TracerProvider(),
	}
	for _, with := range configure {
		with(&cfg)
	}
	c, err = percolator.NewClient(ctx, cfg, bigtableOptions(ctx)...)
	if errors.Is(err, percolator.ErrSchemaMismatch) {
		err = advise(err)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("opening Bigtable instance %s/%s: %w", f.project, f.instance, err), oracle.Close())
	}
	return c, func() error {
		err := c.Close()
		_ = oracle.Close() // nothing is on the way any more
		return err
	}, nil
}

// connectionKey is the context key of the options by which commands reach Bigtable, in a program
// that has an emulator inside, and oracleKey of those by which they reach an oracle that is inside.
type (
	connectionKey struct{}
	oracleKey     struct{}
)

// bigtableOptions are the options for every client of Bigtable and of its administration that a
// command opens.
func bigtableOptions(ctx context.Context) []option.ClientOption {
	opts, _ := ctx.Value(connectionKey{}).([]option.ClientOption)
	return slices.Clone(opts)
}
