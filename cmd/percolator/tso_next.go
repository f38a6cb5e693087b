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
		Use:  "next",
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
