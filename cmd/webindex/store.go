package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/internal/serve/exporters"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// target names a store that is running.
type target struct {
	project, instance, appProfile string
	oracle                        string
	telemetry                     *exporters.Exporters // nil: none
}

func (t *target) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&t.project, "project", cmp.Or(os.Getenv("PERCOLATOR_PROJECT"), "webindex"), "Google Cloud `project` [$PERCOLATOR_PROJECT]; any name will do on an emulator")
	flags.StringVar(&t.instance, "instance", cmp.Or(os.Getenv("PERCOLATOR_INSTANCE"), "webindex"), "Bigtable `instance` [$PERCOLATOR_INSTANCE]; any name will do on an emulator")
	flags.StringVar(&t.appProfile, "app-profile", os.Getenv("PERCOLATOR_APP_PROFILE"), "app `profile` with single-cluster routing and transactional writes [$PERCOLATOR_APP_PROFILE]")
	flags.StringVar(&t.oracle, "tso", os.Getenv("PERCOLATOR_TSO_ADDR"), "`addresses` of the timestamp oracle, host:port,… [$PERCOLATOR_TSO_ADDR]")
}

// with connects to the oracle and the store for as long as do takes.
func (t *target) with(ctx context.Context, log *slog.Logger, do func(client *percolator.Client) error) error {
	if t.oracle == "" {
		return errors.New("no timestamp oracle: use --tso host:port or set PERCOLATOR_TSO_ADDR")
	}
	secure, err := tso.DialOptionsFromEnv(log)
	if err != nil {
		return fmt.Errorf("timestamp oracle: %w", err)
	}
	oracle, err := tso.Dial(ctx, t.oracle, secure...)
	if err != nil {
		return fmt.Errorf("timestamp oracle: %w", err)
	}
	defer oracle.Close() //nolint:errcheck // nothing is lost
	cfg := percolator.Config{
		Project: t.project, Instance: t.instance, AppProfile: t.appProfile,
		Oracle: oracle,
		Schema: index.Schema(), // fails early if "webindex init" is needed
		Logger: log,
	}
	if t.telemetry != nil {
		cfg.MeterProvider, cfg.TracerProvider = t.telemetry.MeterProvider(), t.telemetry.TracerProvider()
	}
	client, err := percolator.NewClient(ctx, cfg)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer func() {
		if err := client.Close(); err != nil {
			log.Warn("closing the store", "reason", err)
		}
	}()
	return do(client)
}
