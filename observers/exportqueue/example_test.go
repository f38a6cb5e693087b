package exportqueue_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// cache is an outside system. For each key it keeps the entry with the highest number, so a
// repeated or late delivery changes nothing.
type cache struct {
	mu   sync.Mutex
	kept map[string]exportqueue.Entry
}

func (c *cache) store(_ context.Context, batch []exportqueue.Entry) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range batch {
		old, ok := c.kept[e.Key]
		if !ok || e.StartTS > old.StartTS || (e.StartTS == old.StartTS && e.Seq > old.Seq) {
			c.kept[e.Key] = e
		}
	}
	return nil
}

// Prices are changed in transactions, and a cache outside of the store follows.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	price := percolator.Int64("products", "price")
	queue, err := exportqueue.New(exportqueue.Config{Table: "cache_exports", Name: "cache"})
	if err != nil {
		log.Fatal(err)
	}
	client, stop := connect(ctx, &percolator.Schema{Tables: []percolator.Table{{Name: "products"}, queue.Table()}})
	defer stop()

	outside := cache{kept: map[string]exportqueue.Entry{}}
	r := observers.NewRegistry()
	queue.Observe(r, client, outside.store)
	w, err := observers.NewWorker(client, r, observers.Config{Logger: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}
	workerCtx, stopWorker := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(workerCtx) }()

	var changes sync.WaitGroup
	for range 10 {
		changes.Go(func() {
			// All of them write the product's price, so the order of their start timestamps is the
			// order of their commits.
			if _, err := client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
				p, err := price.GetOr(ctx, tx, "teapot", 20)
				if err != nil {
					return err
				}
				if err := price.Set(tx, "teapot", p+1); err != nil {
					return err
				}
				return queue.Add(tx, "teapot", fmt.Append(nil, p+1))
			}); err != nil {
				log.Fatal(err)
			}
		})
	}
	changes.Wait()
	if err := w.WaitIdle(ctx); err != nil {
		log.Fatal(err)
	}
	stopWorker()
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}
	fmt.Printf("teapot: %s\n", outside.kept["teapot"].Value)

	// Output:
	// teapot: 30
}

// connect starts a Bigtable emulator and an oracle in this process. A real program has both
// elsewhere: it calls only NewClient.
func connect(ctx context.Context, schema *percolator.Schema) (*percolator.Client, func()) {
	store, err := emulator.Start()
	if err != nil {
		log.Fatal(err)
	}
	oracle, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
	if err != nil {
		log.Fatal(err)
	}
	go oracle.Run(ctx)
	if err := percolator.CreateSchema(ctx, "project", "instance", schema, store.ClientOptions()...); err != nil {
		log.Fatal(err)
	}
	client, err := percolator.NewClient(ctx, percolator.Config{Project: "project", Instance: "instance", Oracle: oracle, Logger: slog.Default()}, store.ClientOptions()...)
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		client.Close()
		store.Close()
	}
}
