package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/tso"
)

// tsoAddrEnv is the environment variable with the default of --tso.
const tsoAddrEnv = "PERCOLATOR_TSO_ADDR"

func newTSONext() *cobra.Command {
	var targets string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "next",
		Short: "Take a timestamp from the oracle and print it with its time",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return next(ctx, cmd, targets)
		},
	}
	cmd.Flags().StringVar(&targets, "tso", os.Getenv(tsoAddrEnv), "host:port of the oracle's servers, separated by commas (default $"+tsoAddrEnv+")")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "how long to wait")
	return cmd
}

func next(ctx context.Context, cmd *cobra.Command, targets string) (err error) {
	if targets == "" {
		return fmt.Errorf("--tso or %s is needed", tsoAddrEnv)
	}
	client, err := tso.Dial(ctx, targets)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	ts, err := client.Next(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d\t%s\n", ts, ts.Time().Format(time.RFC3339Nano))
	return err
}
