package combinequeue_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/combinequeue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// Trades that run at once all add to the commission of one broker. None of them conflicts, and the
// commission is known exactly before and after the worker has folded it.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	commission := percolator.Int64("brokers", "commission")
	queue, err := combinequeue.New(combinequeue.Config[int64]{
		Values:  percolator.Int64("commission_queue", "commission"),
		Combine: func(a, b int64) int64 { return a + b },
	})
	if err != nil {
		log.Fatal(err)
	}
	client, stop := connect(ctx, &percolator.Schema{Tables: []percolator.Table{
		{Name: "trades"},
		{Name: "brokers"},
		queue.Table(),
	}})
	defer stop()

	var trades sync.WaitGroup
	for i := range 20 {
		trades.Go(func() {
			tx, err := client.Begin(ctx)
			if err != nil {
				log.Fatal(err)
			}
			trade := percolator.Cell{Table: "trades", Row: fmt.Sprint(i), Column: "price"}
			if err := tx.Set(trade, []byte("100")); err != nil {
				log.Fatal(err)
			}
			if err := queue.Add(tx, "Smith", 5); err != nil {
				log.Fatal(err)
			}
			if _, err := tx.Commit(ctx); err != nil { // at the first attempt
				log.Fatal(err)
			}
		})
	}
	trades.Wait()
	show := func(when string) {
		err := client.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
			folded, err := commission.GetOr(ctx, s, "Smith", 0)
			if err != nil {
				return err
			}
			exact, err := queue.Value(ctx, s, commission, "Smith")
			fmt.Printf("%s: %d folded, %d in all\n", when, folded, exact)
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	show("before")

	r := observers.NewRegistry()
	queue.ObserveBatch(r, queue.Into(commission))
	w, err := observers.NewWorker(client, r, observers.Config{Logger: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}
	workerCtx, stopWorker := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(workerCtx) }()
	if err := w.WaitIdle(ctx); err != nil {
		log.Fatal(err)
	}
	show("after")
	stopWorker()
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}

	// Output:
	// before: 0 folded, 100 in all
	// after: 100 folded, 100 in all
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
