package main

import (
	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/change"
	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/data"
	"github.com/gopercolator/percolator/cmd/percolator/internal/dev"
	"github.com/gopercolator/percolator/cmd/percolator/internal/keep"
	"github.com/gopercolator/percolator/cmd/percolator/internal/look"
	"github.com/gopercolator/percolator/cmd/percolator/internal/oracle"
)

func newRoot() *cobra.Command {
	root := cli.NewRoot(commandGroups()...)
	oracle.AddHealthcheck(root)
	describeAll(root)
	return root
}

// commandGroups are all commands, in the order of the help.
func commandGroups() []cli.Group {
	return []cli.Group{
		cli.NewGroup("Begin",
			dev.New(),
			change.NewInit(),
			cli.Parent("tso", "The timestamp oracle", oracle.NewServe(), oracle.NewStatus(), oracle.NewNext(), oracle.NewRaise()),
			cli.Parent("schema", "Show and change the tables, observed columns and indexes of an instance",
				change.NewSchemaShow(), change.NewSchemaDiff(), change.NewSchemaApply(), change.NewSchemaBackfill(), look.NewSchemaVerify()),
			look.NewCapacity(),
		),
		cli.NewGroup("Read and write", data.NewGet(), data.NewSet(), data.NewDel(), data.NewDelRange(), data.NewScan(), data.NewWatch()),
		cli.NewGroup("Look",
			look.NewUI(),
			look.NewCheck(),
			look.NewRow(),
			cli.Parent("locks", "Look at locks, and resolve those of transactions that have ended", look.NewLocksLs(), look.NewLocksResolve()),
			cli.Parent("journal", "Look at the record of the rows that transactions write", look.NewJournalLs()),
		),
		cli.NewGroup("Observers",
			cli.Parent("notify", "Look at notifications, and deal with those whose observers have failed",
				change.NewNotifyLs(), change.NewNotifyWait(), change.NewNotifyRetry(), change.NewNotifyDrop()),
			cli.Parent("observers", "Change which observers a column has", change.NewObserversBackfill(), change.NewObserversForget()),
			cli.Parent("exports", "Look at entries of export queues that receivers have refused, and deal with them",
				change.NewExportsLs(), change.NewExportsRetry(), change.NewExportsDrop()),
			cli.Parent("workers", "Look at the processes that run observers", look.NewWorkersLs()),
		),
		cli.NewGroup("Keep",
			cli.Parent("gc", "Look at the collection of old versions, run it, and hold it back", keep.NewGCStatus(), keep.NewGCRun(),
				cli.Parent("hold", "Keep old versions from collection, for readers that take long", keep.NewHoldLs(), keep.NewHoldTake(), keep.NewHoldExtend(), keep.NewHoldRelease())),
			keep.NewSweep(),
			keep.NewBackup(),
			keep.NewRestore(),
			keep.NewRepair(),
		),
		cli.NewGroup("Move data", data.NewExport(), data.NewImport(), data.NewAdopt()),
		cli.NewGroup("This program", cli.NewVersion(), cli.NewCompletion()),
	}
}
