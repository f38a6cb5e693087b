// Command percolator-bench measures Percolator: the figures of the paper, the oracle, observers, and the goals of
// docs/BENCHMARKS.md, which explains what each benchmark means.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/measure"
)

// The exit statuses of all commands.
const (
	exitOK      = 0
	exitFailure = 1 // the benchmark failed, or found a wrong answer
	exitUsage   = 2 // a flag or an argument is wrong
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// execute runs one command and returns its exit status.
func execute(ctx context.Context, args []string, in io.Reader, out, log io.Writer) int {
	root := newBench()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(log)
	err := root.ExecuteContext(ctx)
	var usage usageError
	var wrong measure.UsageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage), errors.As(err, &wrong):
		_, _ = fmt.Fprintln(log, "percolator-bench:", err)
		return exitUsage
	}
	_, _ = fmt.Fprintln(log, "percolator-bench:", err)
	return exitFailure
}

// usageError is an error of whoever typed the command.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// unknownCommand is the Args of a command that only has others below it.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("unknown command %q; see %s --help", args[0], cmd.CommandPath())
}

// noArgs is the Args of a command without arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("%s takes no arguments, got %q", cmd.CommandPath(), args)
}
