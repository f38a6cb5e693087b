package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				return fmt.Errorf("this program was built without version information")
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine(info))
			return err
		},
	}
}

// buildVersion is the version of this program's source.
func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// versionLine says which source, built by which Go.
func versionLine(info *debug.BuildInfo) string {
	line := "percolator " + buildVersion()
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			line += " " + setting.Value
		}
		if setting.Key == "vcs.modified" && setting.Value == "true" {
			line += " (modified)"
		}
	}
	return line + " " + info.GoVersion
}
