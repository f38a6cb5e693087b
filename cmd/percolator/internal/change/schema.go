// Package change has the commands that change an instance: its schema, its observers, and what
// their queues hold.
package change

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
)

// schemaFlags are those of commands that look at a schema, and need no oracle.
type schemaFlags struct {
	cli.InstanceName
	output  cli.Output
	timeout time.Duration
}

func (f *schemaFlags) add(cmd *cobra.Command) {
	f.InstanceName.Add(cmd.Flags())
	f.output.Add(cmd)
	cmd.Flags().DurationVar(&f.timeout, "timeout", cli.CellTimeout, "how long the command may take")
}

// with calls do for as long as --timeout allows.
func (f *schemaFlags) with(cmd *cobra.Command, do func(ctx context.Context) error) error {
	if err := cmp.Or(f.Check(), cli.AboveZero("timeout", f.timeout)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	return do(ctx)
}
