package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator/model"
)

// Protection is how a command protects the tables of Bigtable that it creates.
type Protection struct {
	deletion   bool
	backupDays int
}

// Add adds the flags.
func (p *Protection) Add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.deletion, "deletion-protection", false, "protect tables that are created from deletion")
	cmd.Flags().IntVar(&p.backupDays, "backup-days", 0, "have Bigtable back up tables that are created once a day, and keep it so long: 3 to 90; 0: no backups")
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
