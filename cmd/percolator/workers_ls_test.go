package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// workers runs observers of the cell schema in this process, as one worker.
type workers struct {
	c      *cluster
	worker *observers.Worker
	broken atomic.Bool // the observer of contents fails
}

func (c *cluster) work(cfg observers.Config) *workers {
	c.t.Helper()
	w := &workers{c: c}
	r := observers.NewRegistry()
	r.Observe("index", "documents", "contents", func(context.Context, *percolator.Txn, observers.Change) error {
		if w.broken.Load() {
			return errors.New("no such\nthing")
		}
		return nil
	})
	r.Observe("re count", "documents", "recount", func(context.Context, *percolator.Txn, observers.Change) error { return nil })
	cfg.MaxAttempts, cfg.MinBackoff, cfg.ScanInterval = 2, time.Millisecond, 10*time.Millisecond
	var err error
	if w.worker, err = observers.NewWorker(c.client, r, cfg); err != nil {
		c.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.worker.Run(ctx) }()
	c.t.Cleanup(func() { stop(); <-ended })
	return w
}

func (w *workers) idle() {
	w.c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
	defer cancel()
	if err := w.worker.WaitIdle(ctx); err != nil {
		w.c.t.Fatal(err)
	}
}

// listed waits until so many workers have announced themselves and reported.
func (c *cluster) listed(n int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
	defer cancel()
	for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
		seen, err := membership.Directory{Engine: c.client.Engine()}.Workers(ctx)
		if err != nil {
			c.t.Fatal(err)
		}
		reports, err := admin.New(c.client).Reports(ctx)
		if err != nil {
			c.t.Fatal(err)
		}
		if len(seen.Live) == n && len(reports) == n {
			return
		}
	}
}

// replace has the session show something in the place of what differs from run to run.
func (s *session) replace(pattern, by string) {
	text := regexp.MustCompile(pattern).ReplaceAllString(s.text.String(), by)
	s.text.Reset()
	s.text.WriteString(text)
}

func TestWorkersLs(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, cellSchema())
	s := session{c: cl}
	s.run(cli.ExitOK, "workers", "ls")
	s.run(cli.ExitOK, "workers", "ls", "-o", "json")
	cl.work(observers.Config{Partition: true, ReportInterval: 10 * time.Millisecond})
	cl.listed(1)
	s.run(cli.ExitOK, "workers", "ls")
	var list []struct{ Session, Version string }
	if err := json.Unmarshal([]byte(s.run(cli.ExitOK, "workers", "ls", "-o", "json").out), &list); err != nil || len(list) != 1 {
		t.Fatalf("%d workers, %v", len(list), err)
	}
	s.run(cli.ExitUsage, "workers", "ls", "x")
	s.run(cli.ExitUsage, "workers", "ls", "-o", "xml")
	s.replace(regexp.QuoteMeta(list[0].Session), "SESSION")
	s.replace(regexp.QuoteMeta(list[0].Version), "VERSION")
	host, _ := os.Hostname()
	s.replace(regexp.QuoteMeta(host), "HOST")
	s.replace(fmt.Sprintf(`\b%d\b`, os.Getpid()), "PID")
	s.compare("workers.txt")
}

func TestNotifySession(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testNotifySession)
}

func testNotifySession(t *testing.T) {
	cl := newCluster(t, cellSchema())
	cell := percolator.Cell{Table: "documents", Row: "com.example/", Column: "contents"}
	s := session{c: cl}
	s.run(cli.ExitOK, "notify", "ls")
	s.run(cli.ExitOK, "notify", "ls", "-o", "json")
	s.run(cli.ExitOK, "notify", "wait")
	cl.set(map[percolator.Cell]string{cell: "secret"})
	s.run(cli.ExitFindings, "notify", "wait", "--timeout", "3s") // nobody works
	s.run(cli.ExitFindings, "notify", "wait", "--timeout", "3s", "-o", "json")
	w := cl.work(observers.Config{})
	s.run(cli.ExitOK, "notify", "wait")
	s.run(cli.ExitOK, "notify", "wait", "-o", "json")
	w.broken.Store(true)
	odd := cell
	odd.Row = "b\x00\xff"
	cl.set(map[percolator.Cell]string{cell: "secret", odd: "secret"})
	w.idle()
	s.run(cli.ExitOK, "notify", "wait") // parked cells do not count, and are named
	time.Sleep(time.Minute)             // the worker has reported
	s.run(cli.ExitFindings, "check", "--only", "observers", "--strict")
	s.run(cli.ExitOK, "notify", "ls")
	s.run(cli.ExitOK, "notify", "ls", "documents", "--limit", "1", "-o", "json")
	s.run(cli.ExitOK, "notify", "retry", "--all", "--dry-run")
	s.runWith(cli.ExitUsage, "\n", "notify", "drop", "documents", `"b\x00\xff"`, "contents", "index")
	s.run(cli.ExitOK, "notify", "drop", "documents", `"b\x00\xff"`, "contents", "index", "--dry-run")
	s.run(cli.ExitOK, "notify", "drop", "documents", `"b\x00\xff"`, "contents", "index", "--yes", "-o", "json")
	w.broken.Store(false)
	s.run(cli.ExitOK, "notify", "retry", "--observer", "index", "--dry-run", "-o", "json")
	s.run(cli.ExitOK, "notify", "retry", "--observer", "index")
	s.run(cli.ExitOK, "notify", "wait")
	s.run(cli.ExitOK, "notify", "ls")
	s.run(cli.ExitNotFound, "notify", "retry", "documents", "com.example/", "contents", "index")
	s.run(cli.ExitUsage, "notify", "ls", "nowhere")
	s.run(cli.ExitUsage, "notify", "wait", "x")
	s.run(cli.ExitUsage, "notify", "wait", "-o", "xml")

	s.run(cli.ExitOK, "observers", "backfill", "documents", "contents", "index")
	s.runWith(cli.ExitUsage, "n\n", "observers", "forget", "documents", "contents", "index")
	s.run(cli.ExitOK, "observers", "forget", "documents", "contents", "index", "--dry-run")
	s.run(cli.ExitOK, "observers", "forget", "documents", "contents", "index", "--dry-run", "-o", "json")
	s.run(cli.ExitOK, "observers", "forget", "documents", "contents", "index", "--yes")
	s.run(cli.ExitOK, "observers", "backfill", "documents", "contents", "index")
	s.run(cli.ExitOK, "notify", "wait")
	s.run(cli.ExitFailure, "observers", "backfill", "documents", "title", "index")
	s.run(cli.ExitOK, "observers", "backfill", "documents", "contents", "indx", "--dry-run")
	s.run(cli.ExitOK, "observers", "backfill", "documents", "contents", "indx", "--dry-run", "-o", "json")
	s.run(cli.ExitUsage, "observers", "backfill", "documents", "contents")
	s.compare("notify.txt")
	cl.must(cli.ExitUnavailable, "notify", "wait", "--tso", "127.0.0.1:1", "--timeout", "300ms")
}

// A tool leaves the entries of the dead, and what it cannot read, where they are.
func TestWorkersLsChangesNothing(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}})
	ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
	defer cancel()
	bt, err := bigtable.NewClient(ctx, cl.project, cl.instance, cl.options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bt.Close() })
	meta := bt.Open("percolator_meta")
	mut := bigtable.NewMutation()
	mut.Set("meta", "worker:damaged", 1000, []byte(`{"damaged`))
	if err := meta.Apply(ctx, "workers", mut); err != nil {
		t.Fatal(err)
	}
	cl.must(cli.ExitOK, "workers", "ls")
	if row, err := meta.ReadRow(ctx, "workers"); err != nil || len(row["meta"]) != 1 {
		t.Errorf("after workers ls the row holds %v, %v", row, err)
	}
}
