package main

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

func TestRowSession(t *testing.T) {
	t.Parallel()
	cl := troubled(t)
	s := session{c: cl}
	s.run(exitOK, "row", "accounts", "Bob")
	s.run(exitOK, "row", "accounts", "Joe", "--values")
	s.run(exitOK, "row", "accounts", "Ann")
	s.run(exitOK, "row", "accounts", "Eve")
	s.run(exitOK, "row", "accounts", "Tom")
	s.run(exitOK, "row", "accounts", "Joe", "--versions", "1")
	s.run(exitOK, "row", "accounts", "Joe", "--values", "-o", "json")
	before := cl.set(map[percolator.Cell]string{accounts("Zoe"): "$1"})
	cl.set(map[percolator.Cell]string{accounts("Zoe"): "$1000"})
	s.run(exitOK, "row", "accounts", "Zoe", "--as-of", strconv.FormatInt(int64(before), 10))
	s.run(exitUsage, "row", "accounts", "Zoe", "--as-of", "2090-01-01T00:00:00Z")
	s.run(exitNotFound, "row", "accounts", "Nobody")
	s.run(exitNotFound, "row", "accounts", "Bob", "--column", "other")
	s.run(exitUsage, "row", "accounts")
	s.run(exitUsage, "row", "accounts", `"`)
	s.run(exitUsage, "row", "accounts", "Bob", "--versions", "-1")
	s.run(exitUsage, "row", "accounts", "Bob", "-o", "yaml")
	s.run(exitUsage, "row", "percolator_meta", "meta")
	s.run(exitUsage, "row", "unknown", "Bob")
	s.compare("row.txt")
	if again := cl.must(exitOK, "row", "accounts", "Eve"); !strings.Contains(again.out, "dead") {
		t.Errorf("looking has resolved a lock:\n%s", again.out)
	}
}

// TestRowObservers: acknowledgments, parked observers, and cells that nobody can decode.
func TestRowObservers(t *testing.T) {
	t.Parallel()
	cl := troubled(t)
	ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
	defer cancel()
	var through commit.Acknowledgment
	for range 2 {
		cl.set(map[percolator.Cell]string{accounts("Pat"): "\x00\x01\xff"})
		_, err := cl.client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) (err error) {
			through, err = (*commit.Txn)(tx).Acknowledge(ctx, accounts("Pat"), "audit", []string{"audit", "export"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	cl.set(map[percolator.Cell]string{accounts("Pat"): "<html>" + strings.Repeat("x", 300)})
	if err := admin.New(cl.client).SetObserverStates(ctx, admin.ObserverState{Cell: accounts("Pat"), Observer: "export", Through: through.CommitTS, Attempts: 20,
		Since: time.Now(), Reason: "no such\nhost", Observers: []string{"audit", "export"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		cell := accounts("Pat")
		cell.Column = "recount"
		return tx.Notify(cell)
	}); err != nil {
		t.Fatal(err)
	}
	cl.plant("accounts", "Pat", "lock", "broken", 0, "rubbish")
	s := session{c: cl}
	s.run(exitOK, "row", "accounts", "Pat")
	s.run(exitOK, "row", "accounts", "Pat", "--column", "balance", "--values", "--versions", "2")
	s.run(exitOK, "row", "accounts", "Pat", "--column", "balance", "--versions", "1", "-o", "json")
	s.compare("row_observers.txt")
}

// plant writes a cell that the protocol would not write.
func (c *cluster) plant(table, row, family, column string, ts bigtable.Timestamp, value string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
	defer cancel()
	bt, err := bigtable.NewClientWithConfig(ctx, c.project, c.instance, bigtable.ClientConfig{
		MetricsProvider: bigtable.NoopMetricsProvider{}, DisableSession: true, DisableDirectAccess: true,
	}, c.options...)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = bt.Close() }()
	mut := bigtable.NewMutation()
	mut.Set(family, column, ts, []byte(value))
	if err := bt.Open(table).Apply(ctx, row, mut); err != nil {
		c.t.Fatal(err)
	}
}

// TestRowFitsTheTerminal: 120 columns are enough for names of usual lengths.
func TestRowFitsTheTerminal(t *testing.T) {
	t.Parallel()
	cl := troubled(t)
	cl.die(afterCommit, strings.Repeat("long ", 100), percolator.Cell{Table: "accounts", Row: "com.example/" + strings.Repeat("path/", 30), Column: "contents:document"},
		percolator.Cell{Table: "accounts", Row: "wide", Column: "contents:document"})
	for _, row := range []string{"Bob", "Joe", "Ann", "wide"} {
		for line := range strings.Lines(cl.must(exitOK, "row", "accounts", row, "--values").out) {
			if width := len([]rune(strings.TrimRight(line, "\n"))); width > 120 {
				t.Errorf("%d columns: %s", width, line)
			}
		}
	}
}

func TestRowText(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{-1: "? bytes", 0: "0 bytes", 1: "1 byte", 9999: "9999 bytes", 12_345: "12.3 kB", 104_857_600: "104.9 MB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{-time.Second: "0s", 7 * time.Second: "7s", 192 * time.Second: "3m12s", 5*time.Hour + time.Minute: "5h1m", 49 * time.Hour: "2d1h"} {
		if got := briefAge(d); got != want {
			t.Errorf("briefAge(%v) = %q, want %q", d, got, want)
		}
	}
	for in, want := range map[string]string{"text": "text", "": `""`, "\x00\xff": "00 ff", "a\nb": "61 0a 62"} {
		if got := valueLine(percolator.TypeBytes, []byte(in), int64(len(in))); got != want {
			t.Errorf("valueLine(percolator.TypeBytes, %q) = %q, want %q", in, got, want)
		}
	}
	if got := valueLine(percolator.TypeBytes, []byte("begin"), 100); got != "begin…" {
		t.Errorf("a cut value is shown as %q", got)
	}
	if got := shortened(strings.Repeat("a", 50)+strings.Repeat("z", 50), 20); len([]rune(got)) != 20 || !strings.HasPrefix(got, "aaa") || !strings.HasSuffix(got, "zzz") {
		t.Errorf("shortened to %q", got)
	}
}

func TestPaint(t *testing.T) {
	t.Parallel()
	if got := painter(true).paint(red, "x"); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("%q", got)
	}
	if got := painter(false).paint(red, "x"); got != "x" {
		t.Errorf("%q", got)
	}
	if painterFor(new(strings.Builder)) {
		t.Error("colours where there is no terminal")
	}
}
