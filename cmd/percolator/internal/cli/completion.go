package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// NewCompletion takes the place of cobra's own command, which is hidden and has no examples.
func NewCompletion() *cobra.Command {
	return &cobra.Command{
		Use:       "completion SHELL",
		Args:      cobra.ArbitraryArgs, // RunE says which
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return Usagef("%s takes the name of a shell: bash, zsh, fish or powershell", cmd.CommandPath())
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
			return Usagef("no completion for %q; there are bash, zsh, fish and powershell", args[0])
		},
	}
}

// completeNoFiles keeps shells from offering files for arguments that name none.
func completeNoFiles(parent *cobra.Command) {
	for _, cmd := range parent.Commands() {
		completeNoFiles(cmd)
		takesFile := slices.ContainsFunc([]string{"FILE", "DEST", "SRC"}, func(arg string) bool { return strings.Contains(cmd.Use, arg) })
		if !takesFile && len(cmd.ValidArgs) == 0 && cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
}
