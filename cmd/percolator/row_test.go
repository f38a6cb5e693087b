package main

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

func TestRowSession(t *testing.T) {
	t.Parallel()
	cl := troubled(t)
	s := session{c: cl}
	s.run(cli.ExitOK, "row", "accounts", "Bob")
	s.run(cli.ExitOK, "row", "accounts", "Joe", "--values")
	s.run(cli.ExitOK, "row", "accounts", "Ann")
	s.run(cli.ExitOK, "row", "accounts", "Eve")
	s.run(cli.ExitOK, "row", "accounts", "Tom")
	s.run(cli.ExitOK, "row", "accounts", "Joe", "--versions", "1")
	s.run(cli.ExitOK, "row", "accounts", "Joe", "--values", "-o", "json")
	before := cl.set(map[percolator.Cell]string{accounts("Zoe"): "$1"})
	cl.set(map[percolator.Cell]string{accounts("Zoe"): "$1000"})
	s.run(cli.ExitOK, "row", "accounts", "Zoe", "--as-of", strconv.FormatInt(int64(before), 10))
	s.run(cli.ExitUsage, "row", "accounts", "Zoe", "--as-of", "2090-01-01T00:00:00Z")
	s.run(cli.ExitNotFound, "row", "accounts", "Nobody")
	s.run(cli.ExitNotFound, "row", "accounts", "Bob", "--column", "other")
	s.run(cli.ExitUsage, "row", "accounts")
	s.run(cli.ExitUsage, "row", "accounts", `"`)
	s.run(cli.ExitUsage, "row", "accounts", "Bob", "--versions", "-1")
	s.run(cli.ExitUsage, "row", "accounts", "Bob", "-o", "yaml")
	s.run(cli.ExitUsage, "row", "percolator_meta", "meta")
	s.run(cli.ExitUsage, "row", "unknown", "Bob")
	s.compare("row.txt")
	if again := cl.must(cli.ExitOK, "row", "accounts", "Eve"); !strings.Contains(again.out, "dead") {
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
	if err := cl.client.Engine().Commits.SetObserverStates(ctx, model.ObserverState{Cell: accounts("Pat"), Observer: "export", Through: through.CommitTS, Attempts: 20,
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
	s.run(cli.ExitOK, "row", "accounts", "Pat")
	s.run(cli.ExitOK, "row", "accounts", "Pat", "--column", "balance", "--values", "--versions", "2")
	s.run(cli.ExitOK, "row", "accounts", "Pat", "--column", "balance", "--versions", "1", "-o", "json")
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
		for line := range strings.Lines(cl.must(cli.ExitOK, "row", "accounts", row, "--values").out) {
			if width := len([]rune(strings.TrimRight(line, "\n"))); width > 120 {
				t.Errorf("%d columns: %s", width, line)
			}
		}
	}
}
