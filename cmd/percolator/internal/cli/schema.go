package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/schemafile"
)

// ToBackfill tells how to build the index TABLE.INDEX again.
func ToBackfill(name string) string {
	table, index, _ := strings.Cut(name, ".")
	return fmt.Sprintf("index %s is to be built again: percolator schema backfill %s %s", name, table, index)
}

// BackfillCommand is the command that fills an index.
func BackfillCommand(table, index string) string {
	return fmt.Sprintf("percolator schema backfill %s %s", table, index)
}

// SweepCommand finishes a journal that is building.
const SweepCommand = "percolator sweep"

// maxSchemaBytes is enough: a schema fits in one cell of Bigtable.
const maxSchemaBytes = 1 << 20

// ReadSchema reads a schema file; "-" is in, unless that is nil.
func ReadSchema(ctx context.Context, path string, in io.Reader) (s *percolator.Schema, err error) {
	err = ReadInput(ctx, path, in, maxSchemaBytes, func(text []byte) (err error) {
		s, err = schemafile.Parse(text)
		return err
	})
	return s, err
}

// Protection is how a command protects the tables of Bigtable that it creates.
type Protection struct {
	deletion   bool
	backupDays int
}

// Add adds the flags.
func (p *Protection) Add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.deletion, "deletion-protection", false, "protect the created tables from deletion")
	cmd.Flags().IntVar(&p.backupDays, "backup-days", 0, "let Bigtable back up the created tables once a day, and keep backups for so many days: 3 to 90; 0: no backups")
}

// Check refuses days that Bigtable would refuse.
func (p Protection) Check() error {
	if p.Tables().Check() != nil {
		return Usagef("--backup-days %d: 0, or 3 to 90", p.backupDays)
	}
	return nil
}

// Tables is what the flags say.
func (p Protection) Tables() model.TableProtection {
	return model.TableProtection{Deletion: p.deletion, Backups: time.Duration(p.backupDays) * 24 * time.Hour}
}
