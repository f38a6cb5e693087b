package oracle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
)

func NewNext() *cobra.Command {
	var f cli.OracleFlags
	cmd := &cobra.Command{
		Use:  "next",
		RunE: func(cmd *cobra.Command, _ []string) error { return next(cmd, f) },
	}
	f.Add(cmd, 10*time.Second)
	return cmd
}

func next(cmd *cobra.Command, f cli.OracleFlags) (err error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), f.Timeout)
	defer cancel()
	client, err := f.Dial(ctx, cmd)
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
