package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// connect makes a client of a new instance in this process.
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

// Orders are structs, whose keys say who has ordered and when. They are read newest first, a page
// at a time.
func ExampleRowOf() {
	type Item struct {
		Article string
		Count   int
	}
	type Order struct {
		Key     string     `percolator:",key"`
		Items   []Item     `percolator:"items,json"`
		Cents   int64      `percolator:"cents"`
		Shipped *time.Time `percolator:"shipped"`
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := connect(ctx, &percolator.Schema{Tables: []percolator.Table{{Name: "orders"}}})
	defer stop()
	orders, err := percolator.RowOf[Order]("orders")
	if err != nil {
		log.Fatal(err)
	}

	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	place := func(customer string, after time.Duration, items ...Item) (key string) {
		_, err := client.Update(ctx, func(_ context.Context, tx *percolator.Txn) (err error) {
			if key, err = percolator.Key(customer, noon.Add(after)); err != nil {
				return err
			}
			return orders.Insert(tx, Order{Key: key, Items: items, Cents: 500})
		})
		if err != nil {
			log.Fatal(err)
		}
		return key
	}
	place("ann", 0, Item{"pen", 1})
	second := place("ann", time.Minute, Item{"ink", 2})
	place("ann", time.Hour, Item{"paper", 3})
	place("anna", time.Hour, Item{"lamp", 1})

	// Only the column that changes is written, so nobody who changes another one conflicts.
	_, err = client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		order, err := orders.Get(ctx, tx, second)
		if err != nil {
			return err
		}
		shipped := noon.Add(2 * time.Hour)
		order.Shipped = &shipped
		return orders.Put(tx, order)
	})
	if err != nil {
		log.Fatal(err)
	}

	ofAnn, err := percolator.Key("ann")
	if err != nil {
		log.Fatal(err)
	}
	err = client.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		page := percolator.ScanOptions{Rows: []percolator.Range{percolator.Prefix(ofAnn)}, Reverse: true, Limit: 2}
		for order, err := range orders.ScanWith(ctx, s, page) {
			if err != nil {
				return err
			}
			var customer string
			var at time.Time
			if err := percolator.ParseKey(order.Key, &customer, &at); err != nil {
				return err
			}
			fmt.Println(customer, at.Format(time.TimeOnly), order.Items, order.Shipped != nil)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// ann 13:00:00 [{paper 3}] false
	// ann 12:01:00 [{ink 2}] true
}

func ExampleKey() {
	key, err := percolator.Key("order", "ann", 42)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(key)

	var table, customer string
	var number int
	if err := percolator.ParseKey(key, &table, &customer, &number); err != nil {
		log.Fatal(err)
	}
	fmt.Println(table, customer, number)

	ofAnn, err := percolator.Key("order", "ann")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(percolator.Prefix(ofAnn)) // all orders of ann, and none of anna
	// Output:
	// order!ann!b42!
	// order ann 42
	// {order!ann! order!ann"}
}

// An index over a time gives the newest rows first.
func ExampleColumn_ScanWith_index() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := connect(ctx, &percolator.Schema{Tables: []percolator.Table{{Name: "tasks", Indexes: []percolator.Index{{Name: "by-due", Column: "due"}}}}})
	defer stop()

	due := percolator.Time("tasks", "due")
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	_, err := client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		return errors.Join(due.Set(tx, "wash", day(3)), due.Set(tx, "cook", day(1)), due.Set(tx, "shop", day(2)), due.Set(tx, "sleep", day(9)))
	})
	if err != nil {
		log.Fatal(err)
	}
	err = client.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		thisWeek, err := due.Between(day(1), day(8))
		if err != nil {
			return err
		}
		for task, err := range due.ScanWith(ctx, s, percolator.ScanOptions{Index: "by-due", Rows: []percolator.Range{thisWeek}, Reverse: true, Limit: 2}) {
			if err != nil {
				return err
			}
			fmt.Println(task.Cell.Row, task.Value.Format(time.DateOnly))
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// wash 2026-01-03
	// shop 2026-01-02
}

// A column of one's own encoding.
func ExampleNewColumn() {
	duration := percolator.NewColumn("jobs", "took",
		func(d time.Duration) ([]byte, error) { return []byte(d.String()), nil },
		func(b []byte) (time.Duration, error) {
			d, err := time.ParseDuration(string(b))
			if err != nil {
				return 0, errors.New("not a duration") // without the value
			}
			return d, nil
		})
	d, err := duration.Decode("row", []byte("1m30s"))
	fmt.Println(d, err)
	_, err = duration.Decode("row", []byte("secret"))
	fmt.Println(err)
	// Output:
	// 1m30s <nil>
	// percolator: jobs/"row"/"took": corrupt: not a duration
}
