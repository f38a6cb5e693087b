package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// takeForBackup takes a hold beside which collection stands still.
func (f *queryFlags) takeForBackup(ctx context.Context, cmd *cobra.Command, c *percolator.Client, ttl time.Duration, reason string, replicated bool) error {
	wait := newCountdown(cmd, "every client knows of the hold, and everything up to the timestamp has committed")
	_, end := waitingLine(cmd, wait)
	h, to, err := admin.New(c).TakeBackupHold(ctx, ttl, reason, wait.begin)
	end()
	if err != nil {
		return err
	}
	if replicated {
		if err := f.awaitReplication(ctx, c.Schema()); err != nil {
			return fmt.Errorf("hold %s is taken, and copies in this cluster can be repaired to %d; other clusters: %w", h.ID, to, err)
		}
	}
	out := newHoldJSON(h)
	out.To = to
	return f.output.emit(cmd.OutOrStdout(), out, func(w io.Writer) {
		printHolds(w, []holdJSON{out})
		_, _ = fmt.Fprintf(w, "\ncopies that begin now can be repaired to %s: percolator repair --to %d\n", atTime(to), to)
	})
}

// awaitReplication waits until everything that any cluster holds now is in all clusters.
func (f *queryFlags) awaitReplication(ctx context.Context, schema *percolator.Schema) (err error) {
	a, err := bigtable.NewAdminClient(ctx, f.project, f.instance, bigtableOptions(ctx)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	tables := []string{tso.BigtableTable}
	for _, t := range schema.Tables {
		tables = append(tables, t.Name)
		for _, ix := range t.Indexes {
			tables = append(tables, t.Name+"."+ix.Name)
		}
	}
	for _, table := range tables {
		if err := a.WaitForReplication(ctx, table); err != nil {
			return fmt.Errorf("table %q: %w", table, err)
		}
	}
	return nil
}
