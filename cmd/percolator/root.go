package main

import (
	"github.com/spf13/cobra"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "percolator",
		Short: "Transactions and notifications on Cloud Bigtable",
		Long: `Transactions and notifications on Cloud Bigtable.

The default of a flag can be set by the environment variable that its help names; a
flag that is given wins.

` + exitHelp,
		SilenceUsage:  true, // an error is not a question about usage
		SilenceErrors: true, // run prints them
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return applyEnv(cmd)
		},
		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	addHealthcheck(root)
	root.AddCommand(
		newDev(),
		newInit(),
		newTSO(),
		newSchema(),
		newGet(),
		newSet(),
		newDel(),
		newScan(),
		newTxn(),
		newRow(),
		newLocks(),
		newCheck(),
		newNotify(),
		newObservers(),
		newWorkers(),
		newGC(),
		newBackup(),
		newRestore(),
		newUI(),
		newVersion(),
		newCompletion(),
	)
	return root
}

// unknownCommand is the Args of a command that only has others below it.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("unknown command %q; see %s --help", args[0], cmd.CommandPath())
}

// noArgs is the Args of a command without arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("%s takes no arguments, got %q", cmd.CommandPath(), args)
}
