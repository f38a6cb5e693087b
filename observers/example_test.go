package observers_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// The example counts the words of documents, and for each word the documents that it occurs in, as
// documents come and change. Two steps make a chain: a changed text is split into words, and a
// changed list of words is counted.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	// The schema says whose writes notify.
	var (
		text  = percolator.String("documents", "text")
		words = percolator.JSON[[]string]("documents", "words")
		old   = percolator.JSON[[]string]("documents", "counted") // what has been counted of a document
		count = percolator.Int64("words", "documents")
	)
	client, stop := connect(ctx, &percolator.Schema{Tables: []percolator.Table{
		{Name: "documents", Observed: []string{text.Name, words.Name}},
		{Name: "words"},
	}})
	defer stop()

	r := observers.NewRegistry()

	// First step. The row key of a change is the document's.
	observers.Observe(r, "split", text, func(_ context.Context, tx *percolator.Txn, ch observers.Change, t string) error {
		return words.Set(tx, ch.Cell.Row, distinct(t)) // which notifies the second step
	})

	// Second step. It changes the counts by the difference to what was counted before, in the
	// transaction that also remembers what is counted now: run again after a conflict, or for
	// several changes at once, the counts are right.
	observers.Observe(r, "count", words, func(ctx context.Context, tx *percolator.Txn, ch observers.Change, now []string) error {
		before, err := old.GetOr(ctx, tx, ch.Cell.Row, nil)
		if err != nil {
			return err
		}
		change := map[string]int64{}
		for _, w := range now {
			change[w]++
		}
		for _, w := range before {
			change[w]--
		}
		for w, d := range change {
			if d == 0 {
				continue
			}
			n, err := count.GetOr(ctx, tx, w, 0)
			if err != nil {
				return err
			}
			if err := count.Set(tx, w, n+d); err != nil {
				return err
			}
		}
		return old.Set(tx, ch.Cell.Row, now)
	})

	w, err := observers.NewWorker(client, r, observers.Config{Logger: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}
	workerCtx, stopWorker := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(workerCtx) }()

	// Whoever writes a text need not know of any of this.
	write := func(document, t string) {
		_, err := client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return text.Set(tx, document, t) })
		if err != nil {
			log.Fatal(err)
		}
	}
	show := func() {
		if err := w.WaitIdle(ctx); err != nil { // until all of it has been worked through
			log.Fatal(err)
		}
		var line []string
		err := client.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
			for e, err := range count.Scan(ctx, s, percolator.All()) {
				if err != nil {
					return err
				}
				line = append(line, e.Cell.Row+"="+strconv.FormatInt(e.Value, 10))
			}
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(strings.Join(line, " "))
	}
	write("a", "to be or not to be")
	write("b", "let it be")
	show()
	write("b", "let it not be")
	show()

	stopWorker() // finishes what is in flight
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}

	// Output:
	// be=2 it=1 let=1 not=1 or=1 to=1
	// be=2 it=1 let=1 not=2 or=1 to=1
}

// distinct returns the different words of a text in order.
func distinct(text string) []string {
	seen := map[string]bool{}
	var list []string
	for _, w := range strings.Fields(text) {
		if !seen[w] {
			seen[w] = true
			list = append(list, w)
		}
	}
	return list
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

// A batch observer adds many changed amounts to one total in one transaction, where single runs
// would conflict with each other.
func ExampleObserveBatch() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var (
		amount  = percolator.Int64("orders", "amount")
		counted = percolator.Int64("orders", "counted") // what the total holds of an order
		total   = percolator.Int64("totals", "amount")
	)
	client, stop := connect(ctx, &percolator.Schema{Tables: []percolator.Table{{Name: "orders", Observed: []string{amount.Name}}, {Name: "totals"}}})
	defer stop()

	r := observers.NewRegistry()
	observers.ObserveBatch(r, "total", amount,
		func(ctx context.Context, tx *percolator.Txn, changes []observers.TypedChange[int64]) error {
			sum, err := total.GetOr(ctx, tx, "all", 0)
			if err != nil {
				return err
			}
			for _, ch := range changes {
				before, err := counted.GetOr(ctx, tx, ch.Cell.Row, 0)
				if err != nil {
					return err
				}
				sum += ch.Value - before // the value of a deletion is 0
				if err := counted.Set(tx, ch.Cell.Row, ch.Value); err != nil {
					return err
				}
			}
			return total.Set(tx, "all", sum)
		},
		observers.MaxCells(100), observers.MaxWait(50*time.Millisecond))

	w, err := observers.NewWorker(client, r, observers.Config{Logger: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}
	workerCtx, stopWorker := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(workerCtx) }()

	_, err = client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		for i := range int64(100) {
			if err := amount.Set(tx, fmt.Sprint("order ", i), i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := w.WaitIdle(ctx); err != nil {
		log.Fatal(err)
	}
	err = client.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		sum, err := total.Get(ctx, s, "all")
		fmt.Println(sum)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	stopWorker()
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}

	// Output:
	// 4950
}

// Many orders of a customer change one sum, and a letter is written about the sum. The letter waits
// until no order is left to be added.
func ExampleAfter() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var (
		amount  = percolator.Int64("orders", "amount")
		counted = percolator.Int64("orders", "counted")
		sum     = percolator.Int64("customers", "sum")
		letter  = percolator.String("customers", "letter")
	)
	client, stop := connect(ctx, &percolator.Schema{Tables: []percolator.Table{
		{Name: "orders", Observed: []string{amount.Name}}, {Name: "customers", Observed: []string{sum.Name}},
	}})
	defer stop()

	r := observers.NewRegistry()
	observers.Observe(r, "add", amount, func(ctx context.Context, tx *percolator.Txn, ch observers.Change, now int64) error {
		before, err := counted.GetOr(ctx, tx, ch.Cell.Row, 0)
		if err != nil {
			return err
		}
		customer, _, _ := strings.Cut(ch.Cell.Row, "/")
		s, err := sum.GetOr(ctx, tx, customer, 0)
		if err != nil {
			return err
		}
		if err := counted.Set(tx, ch.Cell.Row, now); err != nil {
			return err
		}
		return sum.Set(tx, customer, s+now-before)
	})
	observers.Observe(r, "write", sum, func(_ context.Context, tx *percolator.Txn, ch observers.Change, s int64) error {
		return letter.Set(tx, ch.Cell.Row, fmt.Sprintf("Dear %s, you owe us %d.", ch.Cell.Row, s))
	}, observers.After(10*time.Second, "add"), observers.HeadStart(time.Second))

	w, err := observers.NewWorker(client, r, observers.Config{Logger: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}
	workerCtx, stopWorker := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(workerCtx) }()

	if _, err := client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		for i := range int64(20) {
			if err := amount.Set(tx, fmt.Sprint("Ann/", i), i); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		log.Fatal(err)
	}
	if err := w.WaitIdle(ctx); err != nil {
		log.Fatal(err)
	}
	err = client.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		text, err := letter.Get(ctx, s, "Ann")
		fmt.Println(text)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	stopWorker()
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}

	// Output:
	// Dear Ann, you owe us 190.
}
