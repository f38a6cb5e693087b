package dev

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/golden"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

const devSchema = `
tables:
  - name: accounts
    indexes:
      - {name: by-owner, column: owner, unique: true}
`

// devLimit bounds what a test waits for.
const devLimit = 2 * time.Minute

// devDefaults are the flags of a test: free ports, a schema, and no snapshots in between.
func devDefaults(t *testing.T) devFlags {
	t.Helper()
	schema := filepath.Join(t.TempDir(), "schema.yaml")
	if err := os.WriteFile(schema, []byte(devSchema), 0o600); err != nil {
		t.Fatal(err)
	}
	const free = "127.0.0.1:0"
	return devFlags{
		bigtable: free, oracle: free, console: free, project: "dev", instance: "dev", schema: schema,
	}
}

// running is a "percolator dev" in this process.
type running struct {
	t *testing.T
	devAddresses
	stop func() error
}

// runDev starts one and waits until it is ready. It ends with the test at the latest.
func runDev(t *testing.T, f devFlags, change func(*devProcess)) *running {
	t.Helper()
	r, err := tryDev(t, f, change)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tryDev(t *testing.T, f devFlags, change func(*devProcess)) (*running, error) {
	t.Helper()
	if err := f.check(); err != nil {
		return nil, err
	}
	ready := make(chan devAddresses, 1)
	d := &devProcess{flags: f, logger: slog.New(slog.NewTextHandler(t.Output(), nil)), what: t.Output(), ready: func(a devAddresses) error { ready <- a; return nil }}
	if change != nil {
		change(d)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx) }()
	r := &running{t: t}
	stopped := false
	r.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() { _ = r.stop() })
	select {
	case r.devAddresses = <-ready:
		return r, nil
	case err := <-ended:
		stopped = true
		cancel()
		return nil, err
	}
}

func (r *running) end() {
	r.t.Helper()
	if err := r.stop(); err != nil {
		r.t.Fatal(err)
	}
}

// devClient opens a client as a program that has the printed addresses does.
func devClient(t *testing.T, a devAddresses) *percolator.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), devLimit)
	defer cancel()
	oracle, err := tso.Dial(ctx, a.Oracle)
	if err != nil {
		t.Fatal(err)
	}
	c, err := percolator.NewClient(ctx, percolator.Config{Project: a.Project, Instance: a.Instance, Oracle: oracle}, emulator.Connect(a.Bigtable)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(); _ = oracle.Close() })
	return c
}

// awaitConsole waits until the console's page has a status and contains a text.
func awaitConsole(t *testing.T, url string, code int, text string) {
	t.Helper()
	fixture.Eventually(t, text, func() bool {
		resp, err := http.Get(url)
		if err != nil {
			return false
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode == code && strings.Contains(string(body), text)
	})
}

func account(name, column string) percolator.Cell {
	return percolator.Cell{Table: "accounts", Row: name, Column: column}
}

func devSet(t *testing.T, c *percolator.Client, cell percolator.Cell, value string) tso.Timestamp {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), devLimit)
	defer cancel()
	ts, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Set(cell, []byte(value)) })
	if err == nil {
		err = c.Flush(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ts
}

func devGet(t *testing.T, c *percolator.Client, cell percolator.Cell) (value string, at tso.Timestamp) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), devLimit)
	defer cancel()
	err := c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		v, err := s.Get(ctx, cell)
		value, at = string(v), s.StartTimestamp()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return value, at
}

// Timestamps are above everything that is stored, also when the clock has gone back, and when
// another oracle, whose clock was fast, has served the same tables.
func TestDevTimestampsGoOn(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	f := devDefaults(t)
	f.data = filepath.Join(t.TempDir(), "dev.snapshot")
	r := runDev(t, f, nil)
	c := devClient(t, r.devAddresses)
	last := devSet(t, c, account("Bob", "balance"), "10")
	_ = c.Close()
	r.end()

	back := func(d *devProcess) { d.now = func() time.Time { return time.Now().Add(-time.Hour) } }
	r = runDev(t, f, back)
	c = devClient(t, r.devAddresses)
	if value, at := devGet(t, c, account("Bob", "balance")); value != "10" || at <= last {
		t.Errorf("after the clock went back: read %q at %d, want 10 after %d", value, at, last)
	}
	if ts := devSet(t, c, account("Bob", "balance"), "11"); ts <= last {
		t.Errorf("after the clock went back: committed at %d, not after %d", ts, last)
	}
	_ = c.Close()
	stranger, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{Now: func() time.Time { return time.Now().Add(time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- stranger.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	other, err := percolator.NewClient(ctx, percolator.Config{Project: r.Project, Instance: r.Instance, Oracle: stranger}, emulator.Connect(r.Bigtable)...)
	if err != nil {
		t.Fatal(err)
	}
	last = devSet(t, other, account("Bob", "balance"), "12")
	_ = other.Close()
	r.end()

	r = runDev(t, f, nil)
	c = devClient(t, r.devAddresses)
	if value, at := devGet(t, c, account("Bob", "balance")); value != "12" || at <= last {
		t.Errorf("after another oracle: read %q at %d, want 12 after %d", value, at, last)
	}
}

// A crash leaves the snapshot that was written last, in which transfers of money are whole. An idle
// store is not written again: the oracle's own record does not count as a change. What cannot be
// written in the end is said, with the exit status of a failure, and what was there stays. A
// snapshot that is given up leaves the former one. A file belongs to one process at a time; who is
// refused does no harm. Before there is a schema the console says so; then it is there, without a
// restart.
func TestDevConsoleWithoutSchema(t *testing.T) {
	t.Parallel()
	f := devDefaults(t)
	schema := f.schema
	f.schema = ""
	r := runDev(t, f, nil)
	page := strings.TrimSuffix(r.Console, "/") + "/"
	awaitConsole(t, page, http.StatusServiceUnavailable, "There is no schema yet")
	s, err := cli.ReadSchema(t.Context(), schema, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := percolator.CreateSchema(t.Context(), r.Project, r.Instance, s, emulator.Connect(r.Bigtable)...); err != nil {
		t.Fatal(err)
	}
	awaitConsole(t, page, http.StatusOK, "<title>Overview")
	r.end()
}

// The console's charts begin when there is a schema, and not with the first visit.
func TestDevConsoleOpensByItself(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	f := devDefaults(t)
	f.schema, f.console = "", consoleOff
	r := runDev(t, f, nil)
	c := &devConsole{flags: f, options: emulator.Connect(r.Bigtable), oracle: r.Oracle, logger: slog.New(slog.DiscardHandler)}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.openSoon(ctx) }()
	t.Cleanup(func() { stop(); <-ended; _ = c.close() })
	if err := percolator.CreateSchema(ctx, r.Project, r.Instance, &percolator.Schema{Tables: []percolator.Table{{Name: "accounts"}}}, emulator.Connect(r.Bigtable)...); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(devLimit):
		t.Fatal("the console has not opened")
	}
	if c.mu.Lock(); c.handler == nil {
		t.Error("there is no console")
	}
	c.mu.Unlock()
}

// Whoever creates the schema, nothing waits for 80 s.
func TestDevTiming(t *testing.T) {
	t.Parallel()
	for by, file := range map[string]bool{"--schema": true, "a program": false} {
		f := devDefaults(t)
		if !file {
			f.schema = ""
		}
		r := runDev(t, f, nil)
		if !file {
			s := &percolator.Schema{Tables: []percolator.Table{{Name: "accounts"}}}
			if err := percolator.CreateSchema(t.Context(), r.Project, r.Instance, s, emulator.Connect(r.Bigtable)...); err != nil {
				t.Fatal(err)
			}
		}
		if got := devClient(t, r.devAddresses).Schema().Timing; got != devTiming {
			t.Errorf("a schema of %s has %+v, want %+v", by, got, devTiming)
		}
		r.end()
	}
}

// What is printed, for people and for programs.
func TestDevOutput(t *testing.T) {
	t.Parallel()
	full := devAddresses{
		Bigtable: "127.0.0.1:8086", Oracle: "127.0.0.1:7070", Console: "http://127.0.0.1:7072/", Project: "dev", Instance: "dev", Data: "dev.snapshot",
	}
	bare := full
	bare.Console, bare.Data = "", ""
	var text strings.Builder
	for _, format := range []string{"table", cli.JSON} {
		for _, a := range []devAddresses{full, bare} {
			if err := (&cli.Output{Format: format}).Emit(&text, a, a.write); err != nil {
				t.Fatal(err)
			}
			text.WriteString("--\n")
		}
	}
	golden.Compare(t, "dev.txt", text.String())
}
