// Command stars is a worker whose observer sums up the reviews of each product. A review is a row
// PRODUCT/REVIEW of the table reviews, with a column stars.
package main

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

var (
	stars   = percolator.Int64("reviews", "stars")    // observed: see schema.yaml
	counted = percolator.Int64("reviews", "counted")  // the stars that the sums have of this review
	reviews = percolator.Int64("products", "reviews") // how many
	total   = percolator.Int64("products", "stars")   // of all reviews
)

func sumUp(ctx context.Context, tx *percolator.Txn, ch observers.Change, now int64) error {
	review := ch.Cell.Row
	before, err := counted.GetOr(ctx, tx, review, 0)
	if err != nil || before == now { // a deleted review has 0 stars now
		return err
	}
	product, _, _ := strings.Cut(review, "/")
	return errors.Join(
		add(ctx, tx, reviews, product, min(now, 1)-min(before, 1)),
		add(ctx, tx, total, product, now-before),
		counted.Set(tx, review, now))
}

func add(ctx context.Context, tx *percolator.Txn, column percolator.Column[int64], product string, n int64) error {
	sum, err := column.GetOr(ctx, tx, product, 0)
	if err != nil || n == 0 {
		return err
	}
	return column.Set(tx, product, sum+n)
}

func run(ctx context.Context) error {
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
	observers.Observe(registry, "products", stars, sumUp)
	worker, err := observers.NewWorker(client, registry, observers.Config{})
	if err != nil {
		return err
	}
	log.Print("waiting for reviews; Ctrl-C ends")
	return worker.Run(ctx)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal("stars: ", err)
	}
}
