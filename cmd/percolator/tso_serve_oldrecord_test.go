package main

import (
	"context"
	"encoding/binary"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// announce writes into percolator_meta what a collector would have, at ts.
func announce(t *testing.T, address string, ts tso.Timestamp) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	client, err := bigtable.NewClientWithConfig(ctx, "p", "i",
		bigtable.ClientConfig{MetricsProvider: bigtable.NoopMetricsProvider{}, DisableDirectAccess: true, DisableSession: true}, emulator.Connect(address)...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	mut := bigtable.NewMutation()
	mut.Set("meta", "now", 1000, binary.BigEndian.AppendUint64(nil, uint64(ts)))
	if err := client.Open("percolator_meta").Apply(ctx, "meta", mut); err != nil {
		t.Fatal(err)
	}
}

// A record that is older than what transactions have left behind is refused, until it is raised.
func TestServeRefusesAnOldRecord(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	emulator := startBigtable(t)
	env := onBigtable(emulator)
	initialized(t, env, "--project", "p", "--instance", "i")
	ahead := tso.At(time.Now().Add(30 * time.Minute))
	announce(t, emulator, ahead)

	serve := []string{"tso", "serve", "--project", "p", "--instance", "i", "--admin", "", "--listen", "127.0.0.1:0"}
	refused := start(t, env, serve...)
	if code := refused.wait(t); code != cli.ExitRecord {
		t.Errorf("exit status %d, want %d", code, cli.ExitRecord)
	}
	refused.awaitLogged(t, "has been served")

	if code := start(t, env, append(serve, "--data", "nonsense")...).wait(t); code != cli.ExitUsage {
		t.Errorf("exit status %d of a bad --data, want %d", code, cli.ExitUsage)
	}
	careless := start(t, env, append(serve, "--data", "none")...)
	careless.awaitLog(t, lead)
	careless.signal(t, syscall.SIGTERM)
	if code := careless.wait(t); code != cli.ExitOK {
		t.Errorf("exit status %d", code)
	}

	raised(t, emulator, "--to", "now+40m")
	server := start(t, env, serve...)
	server.awaitLog(t, lead)
	server.signal(t, syscall.SIGTERM)
	if code := server.wait(t); code != cli.ExitOK {
		t.Errorf("exit status %d after the mark was raised", code)
	}
}
