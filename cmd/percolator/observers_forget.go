package main

import (
	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator/admin"
)

func newObserversForget() *cobra.Command {
	var f walkFlags
	var yes bool
	cmd := &cobra.Command{
		Use:   "forget TABLE COLUMN OBSERVER",
		Short: "Delete the acknowledgments of an observer that was removed",
		Long: `Delete the acknowledgments of an observer that was removed, and what is parked for it.

Start it when no worker has the observer any more. If it comes back under the same name
it begins anew: it may run again for changes that it has seen. The command keeps its
position in the instance: interrupted, it goes on where it was when it is repeated.`,
		Example:           `  percolator observers forget documents crawl:response classify`,
		ValidArgsFunction: completeTables,
		Args:              observerArgs,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			return ask(cmd.Context(), cmd, yes, "Forget what observer %s has seen of %s in %s?", args[2], args[1], args[0])
		},
		RunE: f.run("acknowledgments deleted", (*admin.Admin).ForgetObserver),
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}
