package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// envAnnotation marks a flag with the environment variable that holds its default.
const envAnnotation = "percolator.env"

// bindEnv makes an environment variable the default of a flag, and says so in the help.
// A flag that is given wins over the environment, a variable that is empty counts as
// not set.
func bindEnv(flags *pflag.FlagSet, name, variable string) {
	flag := flags.Lookup(name)
	flag.Usage += " [$" + variable + "]"
	flag.Annotations = map[string][]string{envAnnotation: {variable}}
}

// applyEnv sets the flags that were not given. They do not count as changed: where two
// flags exclude each other, the one that was typed wins.
func applyEnv(cmd *cobra.Command) (err error) {
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		variable := flag.Annotations[envAnnotation]
		if flag.Changed || len(variable) == 0 || err != nil {
			return
		}
		if text := os.Getenv(variable[0]); text != "" {
			if setErr := flag.Value.Set(text); setErr != nil {
				err = usagef("%s=%q: %w", variable[0], text, setErr)
			}
		}
	})
	return err
}
