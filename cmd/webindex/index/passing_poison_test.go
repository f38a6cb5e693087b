package index_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/cmd/webindex/webtest"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// A page with many short links, each of which is redirected to a long URL: where its rank goes does
// not fit into one cell. The fold that meets it fails for ever, and with it everything else that it
// has taken from the queue: other pages have no rank.
func TestOnePageDoesNotStopRanks(t *testing.T) {
	fixture.Slow(t)
	fixture.Costly(t)
	w := webtest.New(t, 0)
	w.Env.Clock.Stop() // so that all contributions are of one slice of the queue: as when they come within four seconds
	long := func(i int) string {
		s := fmt.Sprintf("http://long.test/%d/", i)
		return s + strings.Repeat("&", page.MaxURL-len(s))
	}
	// What redirects would leave, without loading each.
	for from := 0; from < page.MaxLinks; from += 1000 {
		w.Update(func(ctx context.Context, tx *percolator.Txn) error {
			for i := from; i < from+1000; i++ {
				if err := index.Redirect.Set(tx, fmt.Sprintf("http://s.test/%d", i), long(i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	start := func(columns ...observers.Column) {
		worker, err := observers.NewWorker(w.Client, index.Registry(time.Second),
			observers.Config{Concurrency: 8, MaxAttempts: 6, DisableCollection: true, Columns: columns})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(ctx) }()
		t.Cleanup(func() { stop(); <-ended })
	}
	until := func(what string, cond func() bool) {
		for ctx := w.Context(); !cond(); time.Sleep(50 * time.Millisecond) {
			if ctx.Err() != nil {
				t.Fatalf("never: %s", what)
			}
		}
	}

	var b strings.Builder
	b.WriteString("<!DOCTYPE html><base href=http://s.test/><title>poison</title>")
	for i := range page.MaxLinks {
		fmt.Fprintf(&b, "<a href=%d>", i)
	}
	const innocent = 64
	name := func(i int) string { return fmt.Sprintf("http://innocent.test/%d", i) }
	for i := range innocent {
		put(w, name(i))
	}
	w.Put(home, b.String())
	start(observers.Column{Table: index.Documents, Name: index.Response.Name})
	until("all pages are processed", func() bool {
		for i := range innocent {
			if webtest.Value(w, index.Hash, name(i)) == "" {
				return false
			}
		}
		return webtest.Value(w, index.Hash, home) != ""
	})
	var columns []observers.Column
	for _, c := range index.Passing.Table().Weak {
		columns = append(columns, observers.Column{Table: index.Passing.Table().Name, Name: c})
	}
	start(columns...)
	ranked := func() (n int) {
		for i := range innocent {
			if accountOf(w, name(i)).Rank > 0 {
				n++
			}
		}
		return n
	}
	parked := ""
	until("ranks or a fold that is given up", func() bool {
		for p, err := range observers.ListParked(w.Context(), w.Client) {
			if err != nil {
				t.Fatal(err)
			}
			parked = fmt.Sprintf("observer %s has given up on %s: %.300s", p.Observer, p.Cell, p.Reason)
			return true
		}
		return accountOf(w, home).Rank > 0 && ranked() == innocent
	})
	if parked != "" {
		t.Error(parked)
	}
	if n := ranked(); n < innocent {
		t.Errorf("%d of %d other pages have no rank, and get none", innocent-n, innocent)
	}
}
