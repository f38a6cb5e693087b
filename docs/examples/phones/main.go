// Command phones is the program of docs/ADOPT.md: a plain Bigtable table ("before"), a program
// that writes it ("old"), the same program when it writes both tables ("install"), and a worker
// whose observer counts how many phones run each build ("work").
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/percolator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "phones:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	project, instance := os.Getenv("PERCOLATOR_PROJECT"), os.Getenv("PERCOLATOR_INSTANCE")
	google, err := bigtable.NewClient(ctx, project, instance)
	if err != nil {
		return err
	}
	defer google.Close()
	plain := google.Open(plainTable)
	switch {
	case len(args) == 1 && args[0] == "before":
		return before(ctx, out, project, instance, plain)
	case len(args) == 3 && args[0] == "old":
		return put(ctx, plain, args[1], args[2])
	}
	client, err := percolator.NewClient(ctx, percolator.Config{Project: project, Instance: instance, Logger: slog.Default()})
	if err != nil {
		return err
	}
	defer client.Close()
	switch {
	case len(args) == 3 && args[0] == "install":
		return install(ctx, client, plain, args[1], args[2])
	case len(args) == 1 && args[0] == "work":
		return work(ctx, out, client)
	}
	return errors.New("usage: phones before | old PHONE BUILD | install PHONE BUILD | work")
}
