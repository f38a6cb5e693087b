package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

var (
	osBuild = percolator.String("phones", "os_build") // observed: see schema.yaml
	counted = percolator.String("phones", "counted")  // the build under which the phone counts
	phones  = percolator.Int64("builds", "phones")    // how many phones run the build
)

// count moves a phone from the build under which it counts to the one that it runs now.
func count(ctx context.Context, tx *percolator.Txn, phone, now string) error {
	before, err := counted.GetOr(ctx, tx, phone, "")
	if err != nil || before == now {
		return err
	}
	return errors.Join(add(ctx, tx, before, -1), add(ctx, tx, now, +1), counted.Set(tx, phone, now))
}

func add(ctx context.Context, tx *percolator.Txn, build string, n int64) error {
	if build == "" {
		return nil
	}
	sum, err := phones.GetOr(ctx, tx, build, 0)
	if err != nil {
		return err
	}
	return phones.Set(tx, build, sum+n)
}

// work runs the observer until ctx ends.
func work(ctx context.Context, out io.Writer, client *percolator.Client) error {
	registry := observers.NewRegistry()
	observers.Observe(registry, "builds", osBuild, func(ctx context.Context, tx *percolator.Txn, ch observers.Change, now string) error {
		return count(ctx, tx, ch.Cell.Row, now)
	})
	worker, err := observers.NewWorker(client, registry, observers.Config{})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "waiting for phones; Ctrl-C ends")
	return worker.Run(ctx)
}
