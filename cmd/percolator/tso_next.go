package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func newTSONext() *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "next",
		Short: "Take a timestamp from the oracle and print it with its time",
		Example: `  percolator tso next --tso 127.0.0.1:7070
  percolator tso next --tso tso-a:7070,tso-b:7070 --tls-ca ca.pem --tls-cert me.pem --tls-key me.key`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return next(cmd, f) },
	}
	f.add(cmd, 10*time.Second)
	return cmd
}

func next(cmd *cobra.Command, f clientFlags) (err error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	client, err := f.dial(ctx, cmd)
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
