package main

import (
	"os"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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
