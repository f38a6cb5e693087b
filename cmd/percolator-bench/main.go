// Command percolator-bench measures Percolator: the figures of the paper, the oracle, observers,
// and the goals of docs/internals/BENCHMARKS.md, which explains what each benchmark means.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/measure"
	"github.com/gopercolator/percolator/internal/text"
)

func main() { os.Exit(run()) }

// run runs one command and returns its exit status: 0 success, 1 failure or a wrong answer, 2 wrong
// usage.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := measure.Command().ExecuteContext(ctx)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "percolator-bench:", text.Lines(err.Error()))
	}
	return measure.ExitStatus(err)
}
