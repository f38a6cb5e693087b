package console_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/console"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// A program with a worker shows the console beside its own pages.
func ExampleNewHandler() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := connect(ctx)
	defer stop()
	worker, err := observers.NewWorker(client, registry(), observers.Config{Logger: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}

	handler, err := console.NewHandler(client, console.Config{Title: "search", Worker: worker, PathPrefix: "/percolator/"})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = handler.Close() }() // before the client
	mux := http.NewServeMux()
	mux.Handle("/percolator/", handler)
	server := httptest.NewServer(mux) // a real one needs http.Server.ReadHeaderTimeout and the like
	defer server.Close()

	resp, err := http.Get(server.URL + "/percolator/")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	fmt.Println(resp.Status, resp.Header.Get("Content-Type"))
	// Output: 200 OK text/html; charset=utf-8
}

func registry() *observers.Registry {
	r := observers.NewRegistry()
	r.Observe("index", "documents", "contents", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
		return tx.Set(percolator.Cell{Table: "documents", Row: ch.Cell.Row, Column: "words"}, fmt.Append(nil, len(ch.Value)))
	})
	return r
}

// connect starts an emulator and an oracle in this process, and a client of them.
func connect(ctx context.Context) (*percolator.Client, func()) {
	store, err := emulator.Start()
	if err != nil {
		log.Fatal(err)
	}
	oracle, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
	if err != nil {
		log.Fatal(err)
	}
	running, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- oracle.Run(running) }()
	schema := &percolator.Schema{Tables: []percolator.Table{{Name: "documents", Observed: []string{"contents"}}}}
	if err := percolator.CreateSchema(ctx, "project", "instance", schema, store.ClientOptions()...); err != nil {
		log.Fatal(err)
	}
	client, err := percolator.NewClient(ctx, percolator.Config{Project: "project", Instance: "instance", Oracle: oracle, Logger: slog.Default()}, store.ClientOptions()...)
	if err != nil {
		log.Fatal(err)
	}
	return client, func() { _ = client.Close(); end(); <-ended; _ = store.Close() }
}
