package main

import (
	"errors"
	"math"
	"os"
	"regexp"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gopercolator/percolator/internal/text"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "percolator",
		Short: "Transactions and notifications on Cloud Bigtable",
		Long: `Transactions and notifications on Cloud Bigtable.

The default of a flag can be set by the environment variable that its help names; a
flag that is given wins.

Messages write a cell as documents/"com.example/"/"title". A command that takes a table, a
row and a column takes that too, in one argument.

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
	root.SetFlagErrorFunc(wrongFlag)
	addHealthcheck(root)
	root.SetUsageFunc(usage)
	for _, g := range commandGroups() {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, cmd := range g.commands {
			cmd.GroupID = g.title
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(newConnectionTopic())
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Args = knownCommand
	takeCells(root)
	completeNoFiles(root)
	describeAll(root)
	return root
}

// commandGroup is what the help lists together.
type commandGroup struct {
	title    string
	commands []*cobra.Command
}

// commandGroups are all commands, in the order of the help.
func commandGroups() []commandGroup {
	return []commandGroup{
		{"Begin", []*cobra.Command{
			newDev(),
			newInit(),
			group("tso", "The timestamp oracle", newTSOServe(), newTSOStatus(), newTSONext(), newTSORaise()),
			group("schema", "Show and change the tables, observed columns and indexes of an instance",
				newSchemaShow(), newSchemaDiff(), newSchemaApply(), newSchemaBackfill(), newSchemaVerify()),
			newCapacity(),
		}},
		{"Read and write", []*cobra.Command{newGet(), newSet(), newDel(), newDelRange(), newScan(), newWatch()}},
		{"Look", []*cobra.Command{
			newUI(),
			newCheck(),
			newRow(),
			group("locks", "Look at locks, and resolve those of transactions that are over", newLocksLs(), newLocksResolve()),
			group("journal", "Look at the record of what transactions have written", newJournalLs()),
		}},
		{"Observers", []*cobra.Command{
			group("notify", "Look at notifications, and deal with those whose observers have failed",
				newNotifyLs(), newNotifyWait(), newNotifyRetry(), newNotifyDrop()),
			group("observers", "Change which observers a column has", newObserversBackfill(), newObserversForget()),
			group("exports", "Look at entries of export queues that receivers have refused, and deal with them",
				newExportsLs(), newExportsRetry(), newExportsDrop()),
			group("workers", "Look at the processes that run observers", newWorkersLs()),
		}},
		{"Keep", []*cobra.Command{
			group("gc", "Look at the collection of old versions, run it, and hold it back", newGCStatus(), newGCRun(),
				group("hold", "Keep old versions from collection, for readers that take long", newHoldLs(), newHoldTake(), newHoldExtend(), newHoldRelease())),
			newSweep(),
			newBackup(),
			newRestore(),
			newRepair(),
		}},
		{"Move data", []*cobra.Command{newExport(), newImport(), newAdopt()}},
		{"This program", []*cobra.Command{newVersion(), newCompletion()}},
	}
}

// unknownCommand is the Args of a command that only has others below it.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := text.DidYouMean(args[0], namesOf(cmd.Commands())...)
	if hint == "" {
		hint = "; see " + cmd.CommandPath() + " --help"
	}
	return usagef("%s: unknown command %q%s", cmd.CommandPath(), args[0], hint)
}

// knownCommand is the Args of "help": the words of a command.
func knownCommand(help *cobra.Command, args []string) error {
	of, rest, err := help.Root().Find(args)
	if err == nil && of.HasSubCommands() {
		err = unknownCommand(of, rest)
	}
	return err
}

func namesOf(commands []*cobra.Command) (names []string) {
	for _, c := range commands {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return names
}

// wrongFlag is the error of a flag that cannot be parsed, with the one that may be meant.
func wrongFlag(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usageError{err}
	}
	var names []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			names = append(names, flag.Name)
		}
	})
	if near := text.Nearest(unknown.GetSpecifiedName(), names...); near != "" && unknown.GetSpecifiedShortnames() == "" {
		return usagef("%w; did you mean --%s?", err, near)
	}
	return usagef("%w; see %s --help", err, cmd.CommandPath())
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

// takes is the Args of a command with least to most arguments.
func takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usagef("usage: %s %s (%s --help)", cmd.Parent().CommandPath(), cmd.Use, cmd.CommandPath())
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
