// Command simulate runs episodes of package simulation, in processes of one core each: on one core
// a seed repeats itself best.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/internal/text"
)

func main() { os.Exit(run()) }

// run returns the exit status.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newCommand().ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(os.Stderr, "simulate:", text.Lines(err.Error()))
	if _, usage := errors.AsType[usageError](err); usage {
		return 2
	}
	return 1
}

// usageError is a command line that is wrong.
type usageError struct{ error }

func noArgs(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return usageError{err}
	}
	return nil
}
