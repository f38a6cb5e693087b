package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
)

// newCompletion takes the place of cobra's own command, which is hidden and has no examples.
func newCompletion() *cobra.Command {
	cmd := &cobra.Command{
		Use:       "completion SHELL",
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("%s takes the name of a shell: bash, zsh, fish or powershell", cmd.CommandPath())
			}
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(out)
			}
			return usagef("no completion for %q; there are bash, zsh, fish and powershell", args[0])
		},
	}
	return cmd
}

// completionTimeout is how long somebody who has pressed tab waits for the names of tables.
const completionTimeout = 2 * time.Second

// tablesToComplete are none if the instance is not known or does not answer: then nothing is
// completed.
func tablesToComplete(cmd *cobra.Command) []percolator.Table {
	if applyEnv(cmd) != nil {
		return nil
	}
	var n instanceName
	n.project, _ = cmd.Flags().GetString("project")
	n.instance, _ = cmd.Flags().GetString("instance")
	n.appProfile, _ = cmd.Flags().GetString("app-profile")
	if n.check() != nil {
		return nil
	}
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, completionTimeout)
	defer cancel()
	stored, err := n.readSchema(ctx)
	if err != nil || stored.Schema == nil {
		return nil
	}
	return stored.Schema.Tables
}

// completeTables completes the first argument.
func completeTables(cmd *cobra.Command, args []string, begun string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		for _, t := range tablesToComplete(cmd) {
			if strings.HasPrefix(t.Name, begun) {
				list = append(list, t.Name)
			}
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// completeIndexes completes a table and one of its indexes.
func completeIndexes(cmd *cobra.Command, args []string, begun string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(args) != 1 {
		return completeTables(cmd, args, begun)
	}
	for _, t := range tablesToComplete(cmd) {
		for _, ix := range t.Indexes {
			if t.Name == args[0] && strings.HasPrefix(ix.Name, begun) {
				list = append(list, ix.Name)
			}
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}
