package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Whoever has followed the quick start has exported the four variables that `percolator dev`
// prints, "for programs and other commands". `webindex init` then works beside the tables of that
// page: in the instance of the variables, not in one of another name that an emulator makes up.
func TestInitWithTheVariablesOfTheQuickStart(t *testing.T) {
	fixture.Long(t)
	store := runStore(t)
	t.Setenv("PERCOLATOR_PROJECT", "dev")
	t.Setenv("PERCOLATOR_INSTANCE", "dev")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fixture.Must(t, percolator.CreateSchema(ctx, "dev", "dev", &percolator.Schema{Tables: []percolator.Table{{Name: "notes", Observed: []string{"text"}}}}))
	status, stdout, stderr := webindex(t, "init")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	client, err := percolator.NewClient(ctx, percolator.Config{Project: "dev", Instance: "dev", Oracle: tso.Oracle(store.oracle)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if want := "table added: documents\n"; !strings.Contains(stdout, want) || !strings.HasSuffix(stdout, "\nthe schema of dev/dev has version 2\n") {
		t.Errorf("it printed\n%s", stdout)
	}
	if n := len(client.Schema().Tables); n < 2 {
		t.Errorf("the quick start's instance has %d table beside webindex init, which printed\n%s", n, stdout)
	}
}
