// Command percolator-bench measures Percolator: the figures of the paper, the oracle, observers,
// and the goals of docs/BENCHMARKS.md, which explains what each benchmark means.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/measure"
	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/simulate"
	"github.com/gopercolator/percolator/internal/printable"
)

func main() { os.Exit(run()) }

// run runs one command and returns its exit status: 0 success, 1 failure or a wrong answer, 2 wrong
// usage.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newRoot().ExecuteContext(ctx)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "percolator-bench:", printable.Lines(err.Error()))
	}
	return measure.ExitStatus(err)
}

func newRoot() *cobra.Command {
	root := measure.Command()
	root.AddCommand(simulate.Command())
	return root
}
