package main

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Two teams share an instance. What waits for one team's workers is no backlog of the other's: a
// worker reports the age of notifications that it takes.
func TestBacklogOfAnotherTeam(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		cl := newCluster(t, nil)
		ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
		defer cancel()
		for _, s := range []*percolator.Schema{
			{Name: "orders", Tables: []percolator.Table{{Name: "order", Observed: []string{"state"}}}},
			{Name: "search", Tables: []percolator.Table{{Name: "page", Observed: []string{"html"}}}},
		} {
			if err := percolator.CreateSchema(ctx, cl.project, cl.instance, s, cl.options...); err != nil {
				t.Fatal(err)
			}
		}
		cl.client = cl.newClient(percolator.Config{})
		r := observers.NewRegistry()
		r.Observe("ship", "order", "state", func(context.Context, *percolator.Txn, observers.Change) error { return nil })
		w, err := observers.NewWorker(cl.client, r, observers.Config{ReportInterval: time.Second, Partition: true})
		if err != nil {
			t.Fatal(err)
		}
		run, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(run) }()
		t.Cleanup(func() { stop(); <-ended })
		cl.set(map[percolator.Cell]string{{Table: "page", Row: "a", Column: "html"}: "x"})
		time.Sleep(time.Minute)
		var list []struct {
			BacklogMillis int64    `json:"backlogMillis"`
			Observers     []string `json:"observers"`
		}
		if err := json.Unmarshal([]byte(cl.must(cli.ExitOK, "workers", "ls", "-o", "json").out), &list); err != nil || len(list) != 1 {
			t.Fatalf("%v %+v", err, list)
		}
		if list[0].BacklogMillis != 0 {
			t.Errorf("a worker of %v, with nothing to do, reports a backlog of %v", list[0].Observers, time.Duration(list[0].BacklogMillis)*time.Millisecond)
		}
	})
}
