package cli

import (
	"embed"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// connectionFlag is the annotation of the flags that say where the instance and its oracle are.
// Most commands have them, so their help stands in one place: "percolator help connection".
const connectionFlag = "connection"

func markConnection(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		// SetAnnotation fails only for an unknown flag, which the test of the help would show.
		_ = flags.SetAnnotation(name, connectionFlag, nil)
	}
}

// divideFlags tells the connection flags from the others.
func divideFlags(all *pflag.FlagSet) (own, connection *pflag.FlagSet) {
	own, connection = pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	all.VisitAll(func(flag *pflag.Flag) {
		if _, ok := flag.Annotations[connectionFlag]; ok {
			connection.AddFlag(flag)
		} else {
			own.AddFlag(flag)
		}
	})
	return own, connection
}

// newConnectionTopic is no command but a page of the help.
func newConnectionTopic() *cobra.Command {
	var f DataFlags
	all := new(cobra.Command)
	f.Add(all, 0)
	_, flags := divideFlags(all.Flags())
	return &cobra.Command{
		Use:   "connection",
		Short: "Where the instance and its oracle are: the flags that most commands have",
		Long: `Where the instance and its oracle are: the flags that most commands have.

Set the environment variables once, and no command needs the flags:

  export PERCOLATOR_PROJECT=my-project PERCOLATOR_INSTANCE=my-instance
  export PERCOLATOR_TSO_ADDR=oracle.internal:7070

With BIGTABLE_EMULATOR_HOST, commands use the emulator at that address, whatever the
project and the instance are called.

Flags:
` + strings.TrimRight(flags.FlagUsages(), "\n"),
	}
}

// usage writes how a command is called: its forms, examples, the commands below it and its flags.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	listCommands(&b, cmd)
	own, connection := divideFlags(cmd.LocalFlags())
	if own.HasAvailableFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s\n", strings.TrimRight(own.FlagUsages(), " \n"))
	}
	if names := flagNames(connection); names != "" {
		fmt.Fprintf(&b, "\nConnection flags (%s help connection):\n  %s\n", cmd.Root().Name(), names)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s [command] --help\" for more about a command.\n", cmd.CommandPath())
	}
	_, err := io.WriteString(cmd.OutOrStderr(), b.String())
	return err
}

func flagNames(flags *pflag.FlagSet) string {
	var names []string
	flags.VisitAll(func(flag *pflag.Flag) { names = append(names, "--"+flag.Name) })
	return strings.Join(names, " ")
}

// listCommands lists the commands below one, in their groups, and the pages of the help.
func listCommands(b *strings.Builder, cmd *cobra.Command) {
	list := func(title string, of func(*cobra.Command) bool) {
		title = "\n" + title + "\n"
		for _, sub := range cmd.Commands() {
			if of(sub) {
				fmt.Fprintf(b, "%s  %-*s %s\n", title, sub.NamePadding(), sub.Name(), sub.Short)
				title = ""
			}
		}
	}
	for _, g := range cmd.Groups() {
		list(g.Title, func(sub *cobra.Command) bool { return sub.GroupID == g.ID && sub.IsAvailableCommand() })
	}
	list("Commands:", func(sub *cobra.Command) bool { return sub.GroupID == "" && sub.IsAvailableCommand() })
	list("Help topics:", func(sub *cobra.Command) bool { return sub.IsAdditionalHelpTopicCommand() && sub.Long != "" })
}

// Describe gives the commands below one their help, from the texts that begin with prefix.
func Describe(parent *cobra.Command, texts embed.FS, prefix string, values *strings.Replacer) {
	for _, cmd := range parent.Commands() {
		Describe(cmd, texts, prefix+cmd.Name()+"_", values)
		text, err := texts.ReadFile(prefix + cmd.Name() + ".txt")
		if err != nil { // a group of commands has none
			continue
		}
		short, rest, _ := strings.Cut(values.Replace(string(text)), "\n")
		long, examples, _ := strings.Cut(rest, "Examples:\n")
		cmd.Short, cmd.Long, cmd.Example = short, strings.TrimSpace(long), strings.TrimRight(examples, "\n")
	}
}
