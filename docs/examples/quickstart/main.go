// Command quickstart is the program of docs/QUICKSTART.md: an observer that keeps, for each tag,
// the notes that have it. With the argument "transfer" it moves money instead, and with "crash" it
// dies in the middle of that.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := work
	if len(os.Args) == 2 {
		run = map[string]func(context.Context, io.Writer) error{"transfer": transfer, "crash": crash}[os.Args[1]]
	}
	if run == nil {
		fmt.Fprintln(os.Stderr, "usage: quickstart [transfer|crash]")
		os.Exit(2)
	}
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// work runs the observer until ctx ends. The oracle is found by PERCOLATOR_TSO_ADDR, an emulator by
// BIGTABLE_EMULATOR_HOST.
func work(ctx context.Context, out io.Writer) error {
	client, err := percolator.NewClient(ctx, percolator.Config{
		Project:  os.Getenv("PERCOLATOR_PROJECT"),
		Instance: os.Getenv("PERCOLATOR_INSTANCE"),
		Logger:   slog.Default(),
	})
	if err != nil {
		return err
	}
	defer client.Close()

	registry := observers.NewRegistry()
	observers.Observe(registry, "tagger", text, func(ctx context.Context, tx *percolator.Txn, ch observers.Change, now string) error {
		fmt.Fprintf(out, "note %q: %v\n", ch.Cell.Row, tagsOf(now))
		return tag(ctx, tx, ch.Cell.Row, tagsOf(now))
	})
	worker, err := observers.NewWorker(client, registry, observers.Config{})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "waiting for notes; Ctrl-C ends")
	return worker.Run(ctx)
}
