// Command percolator-bench measures Percolator: the figures of the paper, the oracle, observers,
// and the goals of docs/BENCHMARKS.md, which explains what each benchmark means.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/measure"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// execute runs one command and returns its exit status: 0 success, 1 failure or a wrong answer, 2
// wrong usage.
func execute(ctx context.Context, args []string, in io.Reader, out, log io.Writer) int {
	root := measure.Command()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(log)
	err := root.ExecuteContext(ctx)
	if err != nil {
		_, _ = fmt.Fprintln(log, "percolator-bench:", err)
	}
	return measure.ExitStatus(err)
}
