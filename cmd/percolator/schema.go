package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// schemaFlags are those of commands that look at a schema, and need no oracle.
type schemaFlags struct {
	instanceName
	output  outputFlag
	timeout time.Duration
}

func (f *schemaFlags) add(cmd *cobra.Command) {
	f.instanceName.add(cmd.Flags())
	f.output.add(cmd)
	cmd.Flags().DurationVar(&f.timeout, "timeout", defaultCellTimeout, "how long the command may take")
}

// with calls do for as long as --timeout allows.
func (f *schemaFlags) with(cmd *cobra.Command, do func(ctx context.Context) error) error {
	if err := cmp.Or(f.check(), aboveZero("timeout", f.timeout)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	return do(ctx)
}

// schemaArg is the Args of a command that takes a schema file.
var schemaArg = takes(1, 1)

func backfillCommand(table, index string) string {
	return fmt.Sprintf("percolator schema backfill %s %s", table, index)
}

// sweepCommand finishes a journal that is building.
const sweepCommand = "percolator sweep"
