package main

import "github.com/spf13/cobra"

func newTSO() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tso",
		Short: "The timestamp oracle",
	}
	cmd.AddCommand(newTSOServe(), newTSONext())
	return cmd
}
