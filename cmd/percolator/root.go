package main

import "github.com/spf13/cobra"

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "percolator",
		Short:         "Transactions and notifications on Cloud Bigtable",
		SilenceUsage:  true, // an error is not a question about usage
		SilenceErrors: true, // run prints them
	}
	root.AddCommand(newTSO(), newVersion())
	return root
}
