package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

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
		if got := p.wait(t); got != exitUsage {
			t.Errorf("%q: exit status %d, want %d: %s", wrong, got, exitUsage, p.stderr.String())
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
	s := &parkedStore{t: t, ctx: ctx, env: append(onBigtable(emulated), tsoAddrEnv+"="+oracle, "PERCOLATOR_PROJECT=p", "PERCOLATOR_INSTANCE=i")}
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

	s.want(s.run(exitOK, "notify", "retry", "docs", "r", shown(column), shown(observer), "--dry-run"), `
would be retried: observer "an index" on docs/"r"/"c\xff"
1 would be retried`)
	if out := s.run(exitOK, "notify", "retry", "--observer", shown(observer), "--dry-run"); !strings.Contains(out, "1 would") {
		t.Errorf("--observer does not understand a name as it is shown: %s", out)
	}
	var found notifications
	if err := json.Unmarshal([]byte(s.run(exitOK, "notify", "ls", "-o", "json")), &found); err != nil || len(found.Parked) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	if got, err := fromShown(found.Parked[0].Column); err != nil || got != column {
		t.Errorf("the column %q is %q in JSON", column, found.Parked[0].Column)
	}
}

// TestOneChangedCellStopsTheOthers: "drop --all" meets a cell that has changed since it was listed,
// and is not parked any more. The others were asked for as well.
func TestOneChangedCellStopsTheOthers(t *testing.T) {
	t.Parallel()
	cmd := newNotifyDrop()
	var out bytes.Buffer
	cmd.SetOut(&out)
	f := parkedFlags{all: true}
	dropped := ""
	err := f.each(cmd, []observers.Parked{{Observer: "a"}, {Observer: "b"}, {Observer: "c"}}, "dropped", func(p observers.Parked) error {
		if p.Observer == "a" {
			return percolator.ErrConflict
		}
		dropped += p.Observer
		return nil
	})
	if dropped != "bc" {
		t.Errorf("of a, b and c, where a has changed, %q were dropped: %v\n%s", dropped, err, out.String())
	}
}
