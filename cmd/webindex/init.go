package main

import (
	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator/admin"

	"github.com/gopercolator/percolator/internal/webindex/index"
	"github.com/gopercolator/percolator/internal/webindex/summary"
)

func newInitCommand(a *app) *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create the tables of the index",
		Long:  "Init creates the tables and stores their schema in the instance. It may be repeated: what exists is left alone.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m := startMeter()
			if err := admin.ApplySchema(cmd.Context(), t.project, t.instance, t.appProfile, index.Schema()); err != nil {
				return err
			}
			return a.summarize(m.stop(summary.Summary{}))
		},
	}
	t.addFlags(cmd)
	return cmd
}
