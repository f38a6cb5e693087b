package main

import "github.com/spf13/cobra"

func newTSO() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tso",
		Short: "The timestamp oracle",
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTSOServe(), newTSOStatus(), newTSONext(), newTSORaise())
	return cmd
}
