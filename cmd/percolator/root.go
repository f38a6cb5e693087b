package main

import (
	"math"
	"os"
	"regexp"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
			if err := applyEnv(cmd); err != nil {
				return err
			}
			return checkOutput(cmd)
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
		group("tso", "The timestamp oracle", newTSOServe(), newTSOStatus(), newTSONext(), newTSORaise()),
		group("schema", "Show and change the tables, observed columns and indexes of an instance",
			newSchemaShow(), newSchemaDiff(), newSchemaApply(), newSchemaBackfill(), newSchemaVerify()),
		newGet(),
		newSet(),
		newDel(),
		newDelRange(),
		newScan(),
		newTxn(),
		newRow(),
		group("locks", "Look at locks, and resolve those of transactions that are over", newLocksLs(), newLocksResolve()),
		newCheck(),
		group("journal", "Look at the record of what transactions have written", newJournalLs()),
		group("notify", "Look at notifications, and deal with those whose observers have failed",
			newNotifyLs(), newNotifyWait(), newNotifyRetry(), newNotifyDrop()),
		group("observers", "Change which observers a column has", newObserversBackfill(), newObserversForget()),
		group("workers", "Look at the processes that run observers", newWorkersLs()),
		group("gc", "Look at the collection of old versions, run it, and hold it back", newGCStatus(), newGCRun(),
			group("hold", "Keep old versions from collection, for readers that take long", newHoldLs(), newHoldTake(), newHoldExtend(), newHoldRelease())),
		newSweep(),
		newBackup(),
		newRestore(),
		newExport(),
		newWatch(),
		newRepair(),
		newImport(),
		newAdopt(),
		newUI(),
		newCapacity(),
		newVersion(),
		newCompletion(),
	)
	describeAll(root)
	return root
}

// unknownCommand is the Args of a command that only has others below it.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("unknown command %q; see %s --help", args[0], cmd.CommandPath())
}

// group is a command that only has others below it.
func group(name, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Args: unknownCommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(commands...)
	return cmd
}

// noArgs is the Args of a command without arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("%s takes no arguments, got %q", cmd.CommandPath(), args)
}

// takes is the Args of a command with least to most arguments, which what names.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usagef("%s takes %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

const anyNumber = math.MaxInt

// notNegative refuses values of a flag below 0.
func notNegative[N int | time.Duration](flag string, n N) error {
	if n < 0 {
		return usagef("--%s %v is negative", flag, n)
	}
	return nil
}

// aboveZero refuses values of a flag below 0, and 0.
func aboveZero[N int | time.Duration](flag string, n N) error {
	if n <= 0 {
		return usagef("--%s %v is not above 0", flag, n)
	}
	return nil
}

// envInUsage finds the environment variable that holds a flag's default: the usage ends with it,
// so that the help names it.
var envInUsage = regexp.MustCompile(`\[\$([A-Z0-9_]+)\]$`)

// applyEnv sets the flags that were not given from the environment, where a variable that is empty
// counts as not set. They do not count as changed: where two flags exclude each other, the one that
// was typed wins.
func applyEnv(cmd *cobra.Command) (err error) {
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		variable := envInUsage.FindStringSubmatch(flag.Usage)
		if flag.Changed || variable == nil || err != nil {
			return
		}
		if text := os.Getenv(variable[1]); text != "" {
			if setErr := flag.Value.Set(text); setErr != nil {
				err = usagef("%s=%q: %w", variable[1], text, setErr)
			}
		}
	})
	return err
}
