package main

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A worker hears at once of what a command commits, although its process ends.
func TestWorkersHearOfCommands(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		cl := newCluster(t, cellSchema())
		ran := make(chan time.Time, 1)
		r := observers.NewRegistry()
		r.Observe("index", "documents", "contents", func(context.Context, *percolator.Txn, observers.Change) error {
			ran <- time.Now()
			return nil
		})
		w, err := observers.NewWorker(cl.client, r, observers.Config{Columns: []observers.Column{{Table: "documents", Name: "contents"}}})
		fixture.Must(t, err)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		defer func() { stop(); <-ended }()
		time.Sleep(10 * time.Second) // the worker has searched, and waits for hints

		var longest time.Duration
		for _, row := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			began := time.Now()
			cl.must(cli.ExitOK, "set", "documents", row, "contents", "x")
			select {
			case at := <-ran:
				longest = max(longest, at.Sub(began))
			case <-time.After(clusterLimit):
				t.Fatal("the observer never ran")
			}
			time.Sleep(700 * time.Millisecond)
		}
		if longest > 50*time.Millisecond {
			t.Errorf("the observer ran %v after the command began", longest)
		}
	})
}
