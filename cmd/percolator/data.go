package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
)

// dataFlags name a Bigtable instance with tables of transactions, and its oracle.
type dataFlags struct {
	project, instance, appProfile string
	oracle                        clientFlags
}

// add adds the flags; timeout is how long the whole command may take by default.
func (f *dataFlags) add(cmd *cobra.Command, timeout time.Duration) {
	flags := cmd.Flags()
	flags.StringVar(&f.project, "project", "", "project of the Bigtable instance")
	flags.StringVar(&f.instance, "instance", "", "Bigtable instance")
	flags.StringVar(&f.appProfile, "app-profile", "", "Bigtable application profile: single-cluster routing, transactional writes")
	bindEnv(flags, "project", "PERCOLATOR_PROJECT")
	bindEnv(flags, "instance", "PERCOLATOR_INSTANCE")
	bindEnv(flags, "app-profile", "PERCOLATOR_APP_PROFILE")
	f.oracle.add(cmd, timeout)
	limit := flags.Lookup("timeout") // of the whole command, so the environment's for one request is not meant
	limit.Usage, limit.Annotations = "how long the command may take", nil
}

// oracleTimeout is how long one request to the oracle may take.
const oracleTimeout = 10 * time.Second

// with opens a client and calls do with it, for as long as --timeout allows. What differs from the
// usual configuration, configure says.
func (f *dataFlags) with(cmd *cobra.Command, do func(ctx context.Context, c *percolator.Client) error, configure ...func(*percolator.Config)) (err error) {
	if f.project == "" || f.instance == "" {
		return usagef("--project and --instance are needed")
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.oracle.timeout)
	defer cancel()
	requests := f.oracle
	requests.timeout = min(requests.timeout, oracleTimeout)
	oracle, err := requests.dial(ctx, cmd)
	if err != nil {
		return err
	}
	defer func() { _ = oracle.Close() }() // nothing is on the way any more
	telemetry, stop, err := startTelemetry(context.WithoutCancel(ctx), "percolator", slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
	if err != nil {
		return err
	}
	defer stop()
	cfg := percolator.Config{
		Project: f.project, Instance: f.instance, AppProfile: f.appProfile, Oracle: oracle,
		MeterProvider: telemetry.MeterProvider(), TracerProvider: telemetry.TracerProvider(),
	}
	for _, with := range configure {
		with(&cfg)
	}
	c, err := percolator.NewClient(ctx, cfg, bigtableOptions(ctx)...)
	if err != nil {
		return fmt.Errorf("opening Bigtable instance %s/%s: %w", f.project, f.instance, err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return do(ctx, c)
}
