// Package cli is what the commands of percolator share: flags that find an instance and its oracle,
// output as a table or JSON, what is shown on a terminal, times, and exit statuses.
package cli

import (
	"cmp"
	"errors"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gopercolator/percolator/internal/text"
)

// NewRoot is the root command of a program with these commands, in the order of its help.
func NewRoot(groups ...Group) *cobra.Command {
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
	root.Version = ProgramVersion()
	root.SetVersionTemplate("{{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(wrongFlag)
	root.SetUsageFunc(usage)
	for _, g := range groups {
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
	takeArgs(root)
	completeNoFiles(root)
	return root
}

// Group is commands that the help lists together.
type Group struct {
	title    string
	commands []*cobra.Command
}

// NewGroup is commands below a title.
func NewGroup(title string, commands ...*cobra.Command) Group {
	return Group{title, commands}
}

// unknownCommand is the Args of a command that only has others below it.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := text.DidYouMean(args[0], namesOf(cmd.Commands())...)
	hint = cmp.Or(hint, "; see "+cmd.CommandPath()+" --help")
	return Usagef("%s: unknown command %q%s", cmd.CommandPath(), args[0], hint)
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
		return Usagef("%w; did you mean --%s?", err, near)
	}
	return Usagef("%w; see %s --help", err, cmd.CommandPath())
}

// Parent is a command that only has others below it.
func Parent(name, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Args: unknownCommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(commands...)
	return cmd
}

// countArgs is the Args of a command that has no other: it takes as many as its usage names, where
// those in brackets may be left out, and the last may be repeated if it ends with an ellipsis.
func countArgs(cmd *cobra.Command, args []string) error {
	usage, _, _ := strings.Cut(cmd.Use, " --") // what follows is of a flag
	most := strings.Count(usage, " ")
	least := most - strings.Count(usage, "[")
	switch {
	case most == 0 && len(args) > 0:
		return Usagef("%s takes no arguments, got %q", cmd.CommandPath(), args)
	case len(args) < least, len(args) > most && !strings.Contains(usage, "…"):
		return Usagef("usage: %s %s (%s --help)", cmd.Parent().CommandPath(), cmd.Use, cmd.CommandPath())
	}
	return nil
}

// NotNegative refuses values of a flag below 0.
func NotNegative[N int | time.Duration](flag string, n N) error {
	if n < 0 {
		return Usagef("--%s %v is negative", flag, n)
	}
	return nil
}

// AboveZero refuses values of a flag below 0, and 0.
func AboveZero[N int | time.Duration](flag string, n N) error {
	if n <= 0 {
		return Usagef("--%s %v is not above 0", flag, n)
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
				err = Usagef("%s=%q: %w", variable[1], text, setErr)
			}
		}
	})
	return err
}
