package keep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/emulatorhost"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// takeForBackup takes a hold beside which collection stands still.
func takeForBackup(ctx context.Context, cmd *cobra.Command, c *percolator.Client, ttl time.Duration, reason string, replicated bool, f *cli.QueryFlags) error {
	wait, _, end := cli.WaitingLine(cmd, "every client knows of the hold, and everything up to the timestamp has committed")
	h, to, err := admin.New(c).TakeBackupHold(ctx, ttl, reason, wait.Begin)
	end()
	if err != nil {
		return err
	}
	if replicated {
		if err := awaitReplication(ctx, f.InstanceName, c.Schema()); err != nil {
			return fmt.Errorf("hold %s is taken, and copies in this cluster can be repaired to %d; other clusters: %w", h.ID, to, err)
		}
	}
	out := newHoldJSON(h)
	out.To = to
	return f.Output.Emit(cmd.OutOrStdout(), out, func(w io.Writer) {
		printHolds(w, []holdJSON{out})
		_, _ = fmt.Fprintf(w, "\ncopies that begin now can be repaired to %s: percolator repair --to %d\n", text.At(to), to)
	})
}

// awaitReplication waits until everything that any cluster holds now is in all clusters.
func awaitReplication(ctx context.Context, in cli.InstanceName, schema *percolator.Schema) (err error) {
	a, err := bigtable.NewAdminClient(ctx, in.Project, in.Instance, cli.BigtableOptions(ctx)...)
	if err != nil {
		return emulatorhost.Credentials(err)
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	for _, table := range append([]string{tso.BigtableTable}, catalog.AllTables(schema)...) {
		if err := a.WaitForReplication(ctx, table); err != nil {
			return fmt.Errorf("table %q: %w", table, err)
		}
	}
	return nil
}
