package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/golden"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// TestRepair plays a disaster: copies of two rows that were taken beside writers.
func TestRepair(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testRepair)
}

func testRepair(t *testing.T) {
	cl := newCluster(t, &percolator.Schema{
		Tables: []percolator.Table{{Name: "accounts", Indexes: []percolator.Index{{Name: "by-owner", Column: "owner"}}}, {Name: "news", Weak: []string{"recount"}}},
		Timing: percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: 2 * time.Second},
	})
	balances := func(alice, bob string) {
		t.Helper()
		cl.set(map[percolator.Cell]string{
			{Table: "accounts", Row: "alice", Column: "balance"}: alice, {Table: "accounts", Row: "alice", Column: "owner"}: "Alice",
			{Table: "accounts", Row: "bob", Column: "balance"}: bob,
		})
	}
	balances("60", "40")
	s := session{c: cl}
	s.run(cli.ExitUsage, "gc", "hold", "take", "--for-backup", "--as-of", "10m")
	s.run(cli.ExitOK, "gc", "hold", "take", "--for-backup", "--replicated", "--reason", "nightly backups")
	var held struct{ To tso.Timestamp }
	if err := json.Unmarshal([]byte(s.run(cli.ExitOK, "gc", "hold", "take", "--for-backup", "-o", "json").out), &held); err != nil || held.To == 0 {
		t.Fatal(held, err)
	}
	to := fmt.Sprint(held.To)

	ctx := t.Context()
	store, err := bigtable.NewClientWithConfig(ctx, cl.project, cl.instance, bigtable.ClientConfig{MetricsProvider: bigtable.NoopMetricsProvider{}, DisableSession: true}, cl.options...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	bob, err := store.Open("accounts").ReadRow(ctx, "bob")
	if err != nil {
		t.Fatal(err)
	}
	balances("10", "90")
	mut := bigtable.NewMutation()
	mut.DeleteRow()
	for family, items := range bob {
		for _, it := range items {
			mut.Set(family, strings.TrimPrefix(it.Column, family+":"), it.Timestamp, it.Value)
		}
	}
	if err := store.Open("accounts").Apply(ctx, "bob", mut); err != nil {
		t.Fatal(err)
	}

	s.run(cli.ExitOK, "scan", "accounts")
	s.run(cli.ExitUsage, "repair")
	s.run(cli.ExitUsage, "repair", "--to", "yesterday")
	s.run(cli.ExitUsage, "repair", "--to", "2095-01-01T00:00:00Z", "--yes")
	s.run(cli.ExitOK, "repair", "--to", to, "--dry-run")
	s.runWith(cli.ExitUsage, "n\n", "repair", "--to", to)
	s.run(cli.ExitOK, "repair", "--to", to, "--yes")
	s.run(cli.ExitOK, "scan", "accounts")
	s.run(cli.ExitFailure, "repair", "--to", fmt.Sprint(held.To+1), "--yes")
	s.run(cli.ExitOK, "repair", "--to", to, "--yes", "-o", "json")
	golden.Compare(t, "repair.txt", normalized(s.text.String()))
}

// TestRepairRaisesTheOracle: a cell that is newer than what the oracle hands out has its mark
// raised, while its server runs.
func TestRepairRaisesTheOracle(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testRepairRaisesTheOracle)
}

func testRepairRaisesTheOracle(t *testing.T) {
	cl := newCluster(t, &percolator.Schema{Tables: []percolator.Table{{Name: "accounts"}}, Timing: percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: 2 * time.Second}})
	cl.must(cli.ExitOK, "init")
	store, err := bigtable.NewClientWithConfig(t.Context(), cl.project, cl.instance, bigtable.ClientConfig{MetricsProvider: bigtable.NoopMetricsProvider{}, DisableSession: true}, cl.options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	server, err := tso.NewServer(tso.NewBigtableStore(store.Open(tso.BigtableTable), "default"), tso.ServerConfig{Lease: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l := cl.network.listen()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	t.Cleanup(func() { stop(); <-ended })
	cl.tso = l.Addr().String()

	cl.must(cli.ExitOK, "set", "accounts", "alice", "balance", "60")
	var held struct{ To tso.Timestamp }
	if err := json.Unmarshal([]byte(cl.must(cli.ExitOK, "gc", "hold", "take", "--for-backup", "-o", "json").out), &held); err != nil {
		t.Fatal(err)
	}
	ahead := held.To.Add(10 * time.Minute)
	mut := bigtable.NewMutation()
	mut.Set("data", "balance", bigtable.Timestamp(ahead)*1000, []byte("newer than the oracle"))
	if err := store.Open("accounts").Apply(t.Context(), "alice", mut); err != nil {
		t.Fatal(err)
	}
	cl.must(cli.ExitOK, "repair", "--to", fmt.Sprint(held.To), "--yes")
	var next tso.Timestamp
	out := cl.must(cli.ExitOK, "tso", "next").out
	if _, err := fmt.Sscan(out, &next); err != nil || next <= ahead {
		t.Errorf("the oracle hands out %q, the tables had %d: %v", out, ahead, err)
	}
	cl.must(cli.ExitOK, "set", "accounts", "alice", "balance", "61")
}

// TestRepairFindings: a lock that nobody can decode keeps everybody out until somebody has looked.
func TestRepairFindings(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairFindings)
}

func testRepairFindings(t *testing.T) {
	cl := newCluster(t, &percolator.Schema{Tables: []percolator.Table{{Name: "accounts"}}, Timing: percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: 2 * time.Second}})
	committed := cl.set(map[percolator.Cell]string{{Table: "accounts", Row: "alice", Column: "balance"}: "60"})
	store, err := bigtable.NewClientWithConfig(t.Context(), cl.project, cl.instance, bigtable.ClientConfig{MetricsProvider: bigtable.NoopMetricsProvider{}, DisableSession: true}, cl.options...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	mut := bigtable.NewMutation()
	mut.Set("lock", "balance", bigtable.Timestamp(committed)*1000, []byte("?"))
	if err := store.Open("accounts").Apply(t.Context(), "bob", mut); err != nil {
		t.Fatal(err)
	}
	s := session{c: cl}
	to := fmt.Sprint(committed + 1)
	s.run(cli.ExitConflict, "repair", "--to", to, "--yes")
	s.run(cli.ExitFindings, "repair", "--to", to, "--yes", "--without-hold")
	s.run(cli.ExitConflict, "get", "accounts", "alice", "balance")
	s.run(cli.ExitConflict, "repair", "--to", fmt.Sprint(committed+2), "--yes", "--without-hold")
	s.run(cli.ExitFindings, "repair", "--to", to, "--yes", "--despite-findings")
	s.run(cli.ExitOK, "get", "accounts", "alice", "balance")
	s.run(cli.ExitConflict, "repair", "--to", to, "--yes")
	golden.Compare(t, "repair-findings.txt", normalized(s.text.String()))
}
