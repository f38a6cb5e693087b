package model

import (
	"fmt"
	"time"
)

// TableProtection is what a new table of Bigtable has against its loss, beside what collection and
// backups of this library do. The zero value leaves both to Bigtable, which protects nothing.
type TableProtection struct {
	// Nobody deletes the table before this is turned off.
	Deletion bool
	// How long Bigtable keeps the backup that it makes of the table once a day, 3 to 90 days; 0: it
	// makes none. Half a transaction may be missing in it (docs/DISASTER.md).
	Backups time.Duration
}

// Bounds of TableProtection.Backups, which are Bigtable's.
const (
	MinTableBackups = 3 * 24 * time.Hour
	MaxTableBackups = 90 * 24 * time.Hour
)

// Check refuses, with ErrInvalidArgument, what Bigtable would.
func (p TableProtection) Check() error {
	if p.Backups != 0 && (p.Backups < MinTableBackups || p.Backups > MaxTableBackups) {
		return fmt.Errorf("percolator: %w: tables' backups for %s: 0, or %s to %s", ErrInvalidArgument, p.Backups, MinTableBackups, MaxTableBackups)
	}
	return nil
}
