package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/percolator/admin"
)

func newInitCommand(a *app) *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create the tables of the index",
		Long:  "Init creates the tables, stores their schema in the instance, and says what it changed. It may be repeated: what exists is left alone.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			plan, err := admin.Instance{Project: t.project, ID: t.instance, AppProfile: t.appProfile}.PlanSchema(cmd.Context(), index.Schema())
			if err != nil {
				return err
			}
			if err := (admin.Instance{Project: t.project, ID: t.instance, AppProfile: t.appProfile}).ApplySchema(cmd.Context(), index.Schema()); err != nil {
				return err
			}
			for _, ch := range plan.Changes {
				fmt.Fprintln(a.stdout, strings.TrimSpace(fmt.Sprintf("%s: %s %s", ch.Kind, ch.Table, ch.Name)))
			}
			stored, err := admin.Instance{Project: t.project, ID: t.instance, AppProfile: t.appProfile}.ReadSchema(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "the schema of %s/%s has version %d\n", t.project, t.instance, stored.Version)
			return nil
		},
	}
	t.addFlags(cmd)
	return cmd
}
