package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/watch"
	"github.com/gopercolator/percolator/tso"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal("orders: ", err)
	}
}

// run shows a day of a market, on the instance that the environment names, or else on an emulator
// and an oracle in this process.
func run(ctx context.Context, out io.Writer) error {
	cfg := percolator.Config{Project: os.Getenv("PERCOLATOR_PROJECT"), Instance: os.Getenv("PERCOLATOR_INSTANCE"), Logger: slog.Default()}
	var options []option.ClientOption
	if cfg.Instance == "" {
		store, err1 := emulator.Start()
		oracle, err2 := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		defer store.Close()
		go func() { _ = oracle.Run(ctx) }()
		cfg.Project, cfg.Instance, cfg.Oracle, options = "local", "local", oracle, store.ClientOptions()
	}
	m, err := NewMarket()
	if err == nil {
		err = percolator.CreateSchema(ctx, cfg.Project, cfg.Instance, m.Schema(), options...)
	}
	if err != nil {
		return err
	}
	client, err := percolator.NewClient(ctx, cfg, options...)
	if err != nil {
		return err
	}
	defer client.Close()
	return m.day(ctx, client, out)
}

// day is what happens in the market.
func (m *Market) day(ctx context.Context, client *percolator.Client, out io.Writer) error {
	registry, sent := observers.NewRegistry(), make(chan exportqueue.Entry, 100)
	m.Observe(registry, client, func(_ context.Context, batch []exportqueue.Entry) error {
		for _, e := range batch {
			sent <- e // a real one is an HTTP request
		}
		return nil
	})
	worker, err := observers.NewWorker(client, registry, observers.Config{Logger: slog.Default()})
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(working) }()
	defer func() { stop(); <-ended }()
	morning, err := client.Snapshot(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "Ada lists a teapot:", m.List(ctx, client, Listing{ID: "L1", Seller: "ada", Slug: "teapot", Title: "Teapot", Cents: 2500, Stock: 3}))
	fmt.Fprintln(out, "Bob lists another: ", m.List(ctx, client, Listing{ID: "L2", Seller: "bob", Slug: "teapot", Title: "A teapot, too", Cents: 1900, Stock: 1}))
	bought := m.Buy(ctx, client, Order{Number: "A-1", Listing: "L1", Buyer: "cid", Quantity: 2})
	fmt.Fprintln(out, "Cid buys two:      ", bought)
	fmt.Fprintln(out, "Dan buys two:      ", m.Buy(ctx, client, Order{Number: "A-2", Listing: "L1", Buyer: "dan", Quantity: 2}))
	if err := worker.WaitIdle(ctx); err != nil {
		return err
	}
	evening, err := client.Snapshot(ctx)
	if err != nil {
		return err
	}
	ada, err := m.sellers.Get(ctx, evening, "ada")
	fmt.Fprintf(out, "Ada's page:         %+v, revenue %d\n", ada.Page, ada.Revenue)
	if err != nil || bought != nil { // on a second day nothing is new: no webhook comes, and no order
		return err
	}
	e := <-sent
	fmt.Fprintf(out, "webhook of %s:     %s\n", e.Key, e.Value)
	_, err = m.Feed(ctx, client, watch.At(morning.StartTimestamp()), func(number, listing string) bool {
		fmt.Fprintf(out, "feed:               %s orders %s\n", number, listing)
		return false
	})
	return err
}
