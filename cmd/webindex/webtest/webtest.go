// Package webtest lets tests make a small web and have it indexed by the real observers on the real
// protocol.
package webtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/webindex/crawl"
	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/verify"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// limit is how long a test may wait for one thing. It is only reached when something is broken.
const limit = 2 * time.Minute

// Web is a store with an index, and workers that keep it.
type Web struct {
	Env     *percolatortest.Env
	Client  *percolator.Client // of the first worker, and used to load pages
	Workers []*observers.Worker

	t testing.TB
}

// New starts a store and workers, which stop when the test ends.
func New(t testing.TB, workers int) *Web {
	t.Helper()
	env := percolatortest.New(t, index.Schema())
	w := &Web{Env: env, Client: env.Client, t: t}
	for i := range workers {
		client := env.Client
		if i > 0 {
			client = env.NewClient()
		}
		w.Workers = append(w.Workers, w.Start(client))
	}
	return w
}

// Start starts one more worker, which takes only the columns named (all if none).
func (w *Web) Start(client *percolator.Client, columns ...observers.Column) *observers.Worker {
	w.t.Helper()
	worker, err := observers.NewWorker(client, index.Registry(time.Millisecond), observers.Config{Concurrency: 8, Columns: columns})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, percolator.ErrClosed) {
			w.t.Errorf("worker: %v", err)
		}
	})
	return worker
}

// Context is bounded, and ends with the test.
func (w *Web) Context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	w.t.Cleanup(cancel)
	return ctx
}

// Put loads an HTML document and reports whether it was new.
func (w *Web) Put(url, html string) bool {
	w.t.Helper()
	return w.Load(url, 200, http.Header{"Content-Type": {"text/html; charset=utf-8"}}, html)
}

// Redirect loads a redirect.
func (w *Web) Redirect(url, to string) bool {
	w.t.Helper()
	return w.Load(url, 301, http.Header{"Location": {to}}, "")
}

// Load loads a response.
func (w *Web) Load(url string, status int, header http.Header, body string) bool {
	w.t.Helper()
	page := index.NewPage(url, index.NewCapture(&crawl.Response{URL: url, Status: status, Header: header, Body: []byte(body)}))
	w.Update(func(ctx context.Context, tx *percolator.Txn) error { return index.Load(ctx, tx, []*index.Page{page}) })
	return page.Changed
}

// Wait waits until no observer has work left, and fails the test if one has given up.
func (w *Web) Wait() {
	w.t.Helper()
	if err := w.Workers[0].WaitIdle(w.Context()); err != nil {
		w.t.Fatal(err)
	}
	for p, err := range observers.ListParked(w.Context(), w.Client) {
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Fatalf("observer %s has given up on %s: %s", p.Observer, p.Cell, p.Reason)
	}
}

// Differences verifies the index.
func (w *Web) Differences() []verify.Difference {
	w.t.Helper()
	var found []verify.Difference
	w.View(func(ctx context.Context, snap *percolator.Snapshot) error {
		n, err := verify.Run(ctx, snap, func(d verify.Difference) { found = append(found, d) })
		if n != len(found) {
			w.t.Errorf("verify counted %d differences and reported %d", n, len(found))
		}
		return err
	})
	return found
}

// Check waits and fails the test if the index is not what the pages say.
func (w *Web) Check() {
	w.t.Helper()
	w.Wait()
	for _, d := range w.Differences() {
		w.t.Error(d)
	}
}

// View reads a snapshot.
func (w *Web) View(f func(ctx context.Context, snap *percolator.Snapshot) error) {
	w.t.Helper()
	if err := w.Client.View(w.Context(), f); err != nil {
		w.t.Fatal(err)
	}
}

// Update changes the store.
func (w *Web) Update(f func(ctx context.Context, tx *percolator.Txn) error) {
	w.t.Helper()
	if _, err := w.Client.Update(w.Context(), f); err != nil {
		w.t.Fatal(err)
	}
}

// Value reads one cell, the zero value if it is absent.
func Value[T any](w *Web, col percolator.Column[T], row string) (v T) {
	w.t.Helper()
	w.View(func(ctx context.Context, snap *percolator.Snapshot) (err error) {
		v, err = col.GetOr(ctx, snap, row, v)
		return err
	})
	return v
}

// Page is an HTML document: a title, a text, and links written as "url anchor text".
func Page(title, text string, links ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<!DOCTYPE html><title>%s</title><p>%s</p>\n", title, text)
	for _, l := range links {
		url, anchor, _ := strings.Cut(l, " ")
		fmt.Fprintf(&b, "<a href=%q>%s</a>\n", url, anchor)
	}
	return b.String()
}
