package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator/admin"
)

// defaultWalkTimeout is long, because what was done when it ends is not lost.
const defaultWalkTimeout = 24 * time.Hour

func newObserversBackfill() *cobra.Command {
	var f walkFlags
	cmd := &cobra.Command{
		Use:   "backfill TABLE COLUMN OBSERVER",
		Short: "Notify the cells that existed before an observer was added",
		Long: `Notify the cells that existed before an observer was added. Without it, an observer
runs for what changes from now on.

Start it when every worker has the observer. Cells for which the observer has run are
left alone; other observers of the column have nothing to do. The command keeps its
position in the instance: interrupted, it goes on where it was when it is repeated.`,
		Example:           `  percolator observers backfill documents crawl:response classify`,
		ValidArgsFunction: completeTables,
		Args:              observerArgs,
		RunE:              f.run("notified", (*admin.Admin).BackfillObserver),
	}
	f.add(cmd)
	return cmd
}
