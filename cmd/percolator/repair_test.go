package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/percolator"
)

// TestRepair plays a disaster: copies of two rows that were taken beside writers.
func TestRepair(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, &percolator.Schema{
		Tables: []percolator.Table{{Name: "accounts", Indexes: []percolator.Index{{Name: "by-owner", Column: "owner"}}}, {Name: "news", Weak: []string{"recount"}}},
		Timing: percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: time.Second},
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
	s.run(exitUsage, "gc", "hold", "take", "--for-backup", "--as-of", "10m")
	s.run(exitOK, "gc", "hold", "take", "--for-backup", "--replicated", "--reason", "nightly backups")
	var held holdJSON
	if err := json.Unmarshal([]byte(s.run(exitOK, "gc", "hold", "take", "--for-backup", "-o", "json").out), &held); err != nil || held.To == 0 {
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

	s.run(exitOK, "scan", "accounts")
	s.run(exitUsage, "repair")
	s.run(exitUsage, "repair", "--to", "yesterday")
	s.run(exitUsage, "repair", "--to", "2095-01-01T00:00:00Z", "--yes")
	s.run(exitOK, "repair", "--to", to, "--dry-run")
	s.runWith(exitUsage, "n\n", "repair", "--to", to)
	s.run(exitOK, "repair", "--to", to, "--yes")
	s.run(exitOK, "scan", "accounts")
	s.run(exitFailure, "repair", "--to", fmt.Sprint(held.To+1), "--yes")
	s.run(exitOK, "repair", "--to", to, "--yes", "-o", "json")
	golden(t, "repair.txt", normalized(s.text.String()))
}
