package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// TestWrongFlagsOfObservers: a flag that cannot work is wrong usage, for which trying again is
// useless.
func TestWrongFlagsOfObservers(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	s := newParkedStore(t)
	for _, wrong := range [][]string{
		{"backfill", "docs", "in", "index", "--rows-per-page", "-1"},
		{"backfill", "docs", "in", "index", "--rows-per-page", "20000"},
		{"backfill", "docs", "in", "index", "--pause", "-1s"},
		{"forget", "docs", "in", "", "--yes"},
	} {
		p := start(t, s.env, append([]string{"observers"}, wrong...)...)
		if got := p.wait(t); got != cli.ExitUsage {
			t.Errorf("%q: exit status %d, want %d: %s", wrong, got, cli.ExitUsage, p.stderr.String())
		}
	}
}

// TestNamesThatAreNotReadable: whatever "notify ls" prints can be given to the other commands.
func TestNamesThatAreNotReadable(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	emulated := startBigtable(t)
	_, oracle := startServer(t, emulated)
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	t.Cleanup(cancel)
	s := &parkedStore{t: t, ctx: ctx, env: append(onBigtable(emulated), cli.OracleEnv+"="+oracle, "PERCOLATOR_PROJECT=p", "PERCOLATOR_INSTANCE=i")}
	const column, observer = "c\xff", "an index"
	schema := &percolator.Schema{Tables: []percolator.Table{{Name: "docs", Observed: []string{column}}}}
	if err := percolator.CreateSchema(ctx, "p", "i", schema, emulator.Connect(emulated)...); err != nil {
		t.Fatal(err)
	}
	dialled, err := tso.Dial(ctx, oracle)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialled.Close() })
	c, err := percolator.NewClient(ctx, percolator.Config{Project: "p", Instance: "i", Oracle: dialled}, emulator.Connect(emulated)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	r := observers.NewRegistry()
	r.Observe(observer, "docs", column, func(context.Context, *percolator.Txn, observers.Change) error { return errors.New("no") })
	w, err := observers.NewWorker(c, r, observers.Config{MaxAttempts: 1, MinBackoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(running) }()
	t.Cleanup(func() { stop(); <-ended })
	if _, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		return tx.Set(percolator.Cell{Table: "docs", Row: "r", Column: column}, nil)
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.WaitIdle(ctx); err != nil {
		t.Fatal(err)
	}

	s.want(s.run(cli.ExitOK, "notify", "retry", "docs", "r", cli.Shown(column), cli.Shown(observer), "--dry-run"), `
would be retried: observer "an index" on docs/"r"/"c\xff"
1 would be retried`)
	if out := s.run(cli.ExitOK, "notify", "retry", "--observer", cli.Shown(observer), "--dry-run"); !strings.Contains(out, "1 would") {
		t.Errorf("--observer does not understand a name as it is shown: %s", out)
	}
	var found notified
	if err := json.Unmarshal([]byte(s.run(cli.ExitOK, "notify", "ls", "-o", "json")), &found); err != nil || len(found.Parked) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	if got, err := cli.FromShown(found.Parked[0].Column); err != nil || got != column {
		t.Errorf("the column %q is %q in JSON", column, found.Parked[0].Column)
	}
}
