package main

import "github.com/spf13/cobra"

func newWorkers() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "Look at the processes that run observers",
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newWorkersLs())
	return cmd
}
