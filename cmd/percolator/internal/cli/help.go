package cli

import (
	"embed"
	"strings"

	"github.com/spf13/cobra"
)

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
