package main

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	instance "cloud.google.com/go/spanner/admin/instance/apiv1"
	"cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/testing/emulators"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
)

// mark finds the mark in the output of init and raise.
var mark = regexp.MustCompile(`mark (?:of oracle "default" is )?(\d+) `)

// initialized runs init and returns its output and the mark in it.
func initialized(t *testing.T, env []string, args ...string) (out, highWater string) {
	t.Helper()
	p := start(t, env, append([]string{"init"}, args...)...)
	if code := p.wait(t); code != cli.ExitOK {
		t.Fatalf("exit status %d, %q", code, p.stderr.String())
	}
	match := mark.FindStringSubmatch(p.stdout.String())
	if match == nil {
		t.Fatalf("printed %q", p.stdout.String())
	}
	return p.stdout.String(), match[1]
}

// Repeating init changes nothing, and a schema can be created before and after.
func TestInitBigtable(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for _, schemaFirst := range []bool{false, true} {
		address, _ := startEmulator(t)
		createSchema := func() {
			schema := &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}}
			if err := percolator.CreateSchema(t.Context(), "p", "i", schema, emulator.Connect(address)...); err != nil {
				t.Fatal(err)
			}
		}
		if schemaFirst {
			createSchema()
		}
		args := []string{"--project", "p", "--instance", "i"}
		out, first := initialized(t, onBigtable(address), args...)
		if !strings.Contains(out, "table percolator_meta of p/i is ready") {
			t.Errorf("printed %q", out)
		}
		if again, second := initialized(t, onBigtable(address), args...); second != first {
			t.Errorf("the second time printed %q, the first time %q", again, out)
		}
		if !schemaFirst {
			createSchema()
		}
		row, err := openTable(t, address).ReadRow(t.Context(), "default", bigtable.RowFilter(bigtable.PassAllFilter()))
		if err != nil || len(row) == 0 {
			t.Errorf("the record: %v, %v", row, err)
		}
		s, _ := startServer(t, address)
		s.awaitLog(t, lead)
	}
}

func TestInitRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no store":       {nil, "--spanner"},
		"no database":    {[]string{"--spanner", "projects/p/instances/i"}, "databases"},
		"half a store":   {[]string{"--instance", "i"}, "--project"},
		"an argument":    {[]string{"x"}, "x"},
		"a bad duration": {[]string{"--timeout", "x"}, "timeout"},
	} {
		p := start(t, []string{"SPANNER_EMULATOR_HOST=127.0.0.1:1"}, append([]string{"init"}, c.args...)...)
		if code := p.wait(t); code != cli.ExitUsage || !strings.Contains(p.stderr.String(), c.want) {
			t.Errorf("%s: exit status %d, %q", name, code, p.stderr.String())
		}
	}
}

// startSpanner returns the address of Spanner's emulator, with the instance
// projects/p/instances/inst. It skips the test on a machine without one.
func startSpanner(t *testing.T) string {
	t.Helper()
	address := emulators.StartSpanner(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	admin, err := instance.NewInstanceAdminClient(ctx, option.WithEndpoint("passthrough:///"+address), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
		option.WithGRPCDialOption(grpc.WithDefaultCallOptions(grpc.WaitForReady(true))))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	creation, err := admin.CreateInstance(ctx, &instancepb.CreateInstanceRequest{Parent: "projects/p", InstanceId: "inst", Instance: &instancepb.Instance{
		Config: "projects/p/instanceConfigs/emulator-config", DisplayName: "i", NodeCount: 1,
	}})
	if err == nil {
		_, err = creation.Wait(ctx)
	}
	if err != nil && status.Code(err) != codes.AlreadyExists {
		t.Fatal(err)
	}
	return address
}

func TestInitSpanner(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	env := []string{"SPANNER_EMULATOR_HOST=" + startSpanner(t)}
	const db = "projects/p/instances/inst/databases/oracle-db"
	out, first := initialized(t, env, "--spanner", db)
	if !strings.Contains(out, "database "+db+" is ready") {
		t.Errorf("printed %q", out)
	}
	if again, second := initialized(t, env, "--spanner", db); second != first {
		t.Errorf("the second time printed %q, the first time %q", again, out)
	}
	p := start(t, env, "tso", "serve", "--listen", "127.0.0.1:0", "--admin", "off", "--spanner", db)
	address := p.awaitLog(t, `serving the oracle.* address=(\S+)`)
	p.awaitLog(t, lead)
	if next := start(t, nil, "tso", "next", "--tso", address); next.wait(t) != cli.ExitOK {
		t.Errorf("next: %q", next.stderr.String())
	}
	raise := start(t, env, "tso", "raise", "--spanner", db, "--to", "now+1m")
	if code := raise.wait(t); code != cli.ExitFailure || !strings.Contains(raise.stderr.String(), "--fence") {
		t.Errorf("raise: exit status %d, %q", code, raise.stderr.String())
	}
	missing := start(t, env, "init", "--spanner", "projects/p/instances/none/databases/db")
	if code := missing.wait(t); code != cli.ExitFailure || !strings.Contains(missing.stderr.String(), "none") {
		t.Errorf("without an instance: exit status %d, %q", code, missing.stderr.String())
	}
}
