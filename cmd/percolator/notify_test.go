package main

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/look"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// parkedStore is a store with a worker in this process whose observer fails as long as it is
// broken.
type parkedStore struct {
	t      *testing.T
	ctx    context.Context
	client *percolator.Client
	worker *observers.Worker
	broken atomic.Bool
	runs   atomic.Int64
	env    []string
}

// commandTimeout bounds what these tests wait for.
const commandTimeout = time.Minute

func newParkedStore(t *testing.T) *parkedStore {
	emulated := startBigtable(t)
	_, oracle := startServer(t, emulated)
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	t.Cleanup(cancel)
	s := &parkedStore{t: t, ctx: ctx, env: append(onBigtable(emulated), cli.OracleEnv+"="+oracle, "PERCOLATOR_PROJECT=p", "PERCOLATOR_INSTANCE=i")}
	schema := &percolator.Schema{Tables: []percolator.Table{{Name: "docs", Observed: []string{"in"}}, {Name: "other", Weak: []string{"w"}}}}
	if err := percolator.CreateSchema(ctx, "p", "i", schema, emulator.Connect(emulated)...); err != nil {
		t.Fatal(err)
	}
	dialled, err := tso.Dial(ctx, oracle)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialled.Close() })
	if s.client, err = percolator.NewClient(ctx, percolator.Config{Project: "p", Instance: "i", Oracle: dialled}, emulator.Connect(emulated)...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.client.Close() })
	s.broken.Store(true)
	s.work()
	return s
}

// work starts the worker.
func (s *parkedStore) work() {
	r := observers.NewRegistry()
	r.Observe("index", "docs", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		if s.broken.Load() {
			return errors.New("no such\nthing")
		}
		s.runs.Add(1)
		return nil
	})
	r.Observe("sweep", "other", "w", func(context.Context, *percolator.Txn, observers.Change) error { return nil })
	w, err := observers.NewWorker(s.client, r, observers.Config{MaxAttempts: 2, MinBackoff: time.Millisecond, ScanInterval: 10 * time.Millisecond})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	s.t.Cleanup(func() { stop(); <-ended })
	s.worker = w
}

func (s *parkedStore) set(rows ...string) {
	s.t.Helper()
	_, err := s.client.Update(s.ctx, func(_ context.Context, tx *percolator.Txn) error {
		for _, row := range rows {
			if err := tx.Set(percolator.Cell{Table: "docs", Row: row, Column: "in"}, []byte("secret")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.idle()
}

func (s *parkedStore) idle() {
	s.t.Helper()
	if err := s.worker.WaitIdle(s.ctx); err != nil {
		s.t.Fatal(err)
	}
}

// run runs the program and returns what it prints; ages are replaced.
func (s *parkedStore) run(code int, args ...string) string {
	s.t.Helper()
	p := start(s.t, s.env, args...)
	if got := p.wait(s.t); got != code {
		s.t.Fatalf("%v: exit status %d, want %d: %s", args, got, code, p.stderr.String())
	}
	return regexp.MustCompile(`(\S+) ago`).ReplaceAllString(p.stdout.String(), "AGO")
}

func (s *parkedStore) want(got, want string) {
	s.t.Helper()
	fields := func(text string) string { // the width of a column depends on ages
		lines := strings.Split(strings.TrimSpace(text), "\n")
		for i, line := range lines {
			lines[i] = strings.Join(strings.Fields(line), " ")
		}
		return strings.Join(lines, "\n")
	}
	if fields(got) != fields(want) {
		s.t.Fatalf("printed\n%s\nwant\n%s", got, want)
	}
}

// notified is what a program reads of "notify ls".
type notified struct {
	Waiting []struct{ Parked int64 }
	Parked  []struct{ Row, Column string }
	More    bool
}

func TestNotify(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	s := newParkedStore(t)
	s.want(s.run(cli.ExitOK, "notify", "ls"), "no notifications")

	s.set("a", "b\x00\xff", "c")
	reason := `observer "index" on column "in" of table "docs": no such\nthing`
	parked := `
TABLE  ROW          COLUMN  OBSERVER  ATTEMPTS  PARKED  REASON
docs   a            in      index     2         AGO     ` + reason + `
docs   "b\x00\xff"  in      index     2         AGO     ` + reason + `
docs   c            in      index     2         AGO     ` + reason
	s.want(s.run(cli.ExitOK, "notify", "ls", "--parked"), parked)
	s.want(s.run(cli.ExitOK, "notify", "ls"), `
TABLE  COLUMN  NOTIFIED  WITH PARKED  OLDEST
docs   in      3         3            AGO
`+parked)
	var found notified
	if err := json.Unmarshal([]byte(s.run(cli.ExitOK, "notify", "ls", "-o", "json", "--limit", "1", "docs")), &found); err != nil {
		t.Fatal(err)
	}
	if len(found.Waiting) != 1 || found.Waiting[0].Parked != 3 || len(found.Parked) != 1 || found.Parked[0].Row != "a" || !found.More {
		t.Fatalf("%+v", found)
	}

	s.want(s.run(cli.ExitOK, "notify", "retry", "--all", "--dry-run"), `
would be retried: observer index on docs/"a"/"in"
would be retried: observer index on docs/"b\x00\xff"/"in"
would be retried: observer index on docs/"c"/"in"
3 would be retried`)
	s.broken.Store(false)
	s.want(s.run(cli.ExitOK, "notify", "retry", "docs", `"b\x00\xff"`, "in", "index"), `
retried: observer index on docs/"b\x00\xff"/"in"
1 retried`)
	s.idle()
	if s.runs.Load() != 1 {
		t.Fatalf("%d runs after one retry", s.runs.Load())
	}
	s.run(cli.ExitUsage, "notify", "drop", "--all") // nobody says yes
	s.want(s.run(cli.ExitOK, "notify", "drop", "docs", "a", "in", "index", "--yes"), `
dropped: observer index on docs/"a"/"in"
1 dropped`)
	s.want(s.run(cli.ExitOK, "notify", "retry", "--observer", "index"), `
retried: observer index on docs/"c"/"in"
1 retried`)
	s.idle()
	s.want(s.run(cli.ExitOK, "notify", "ls"), "no notifications")
	if s.runs.Load() != 2 {
		t.Fatalf("%d runs, want 2: one of three was dropped", s.runs.Load())
	}

	s.run(cli.ExitNotFound, "notify", "retry", "docs", "a", "in", "index")
	s.run(cli.ExitUsage, "notify", "ls", "unknown")
	s.run(cli.ExitUsage, "notify", "retry")
	s.run(cli.ExitUsage, "notify", "retry", "docs", "a")
	s.run(cli.ExitUsage, "notify", "retry", "--all", "--observer", "x")
	s.run(cli.ExitUsage, "notify", "drop", `"`, "a", "in", "index")
	s.run(cli.ExitUsage, "notify", "ls", "-o", "yaml")
}

func TestObserversBackfillAndForget(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	s := newParkedStore(t)
	s.broken.Store(false)
	s.set("a", "b", "c")
	for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
		workers, err := look.RunningWorkers(s.ctx, s.client)
		if err != nil {
			s.t.Fatal(err)
		}
		if len(workers) > 0 {
			break
		}
	}
	s.want(s.run(cli.ExitOK, "observers", "backfill", "docs", "in", "index"), "3 rows, 0 notified")
	s.want(s.run(cli.ExitOK, "observers", "forget", "docs", "in", "index", "--yes"), "3 rows, 3 freed of their acknowledgments")
	s.want(s.run(cli.ExitOK, "observers", "backfill", "docs", "in", "index", "--rows-per-page", "2"), "3 rows, 3 notified")
	s.idle()
	if s.runs.Load() != 6 {
		t.Fatalf("%d runs, want 6", s.runs.Load())
	}
	s.run(cli.ExitUsage, "observers", "forget", "docs", "in", "index")
	s.run(cli.ExitUsage, "observers", "backfill", "docs", "in")
	s.run(cli.ExitUsage, "observers", "backfill", "docs", "in", "indx") // which nobody runs: the command asks
	if r := s.run(cli.ExitOK, "observers", "backfill", "docs", "in", "indx", "--yes"); !strings.Contains(r, "no worker runs indx now") {
		t.Error(r)
	}
	s.run(cli.ExitFailure, "observers", "backfill", "docs", "out", "index")
}
