package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/golden"
	"github.com/gopercolator/percolator/cmd/percolator/internal/oracle"
	"github.com/gopercolator/percolator/internal/testing/fixture"
)

func TestStatus(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	emulator := startBigtable(t)
	a, addressA := startServer(t, emulator)
	a.awaitLog(t, lead)
	b, addressB := startServer(t, emulator)
	awaitPage(t, adminOf(t, b)+"/readyz", 200, "following")
	const nobody = "127.0.0.1:1"
	p := start(t, nil, "tso", "status", "-o", "json", "--tso", strings.Join([]string{addressA, addressB, nobody}, ","))
	if code := p.wait(t); code != cli.ExitOK {
		t.Fatalf("exit status %d, %q", code, p.stderr.String())
	}
	var got []struct {
		Leading, Ready, Reachable bool
		Epoch                     int64
		Leader, Version, Error    string
	}
	if err := json.Unmarshal([]byte(p.stdout.String()), &got); err != nil || len(got) != 3 {
		t.Fatalf("%v: %q", err, p.stdout.String())
	}
	if !got[0].Leading || got[0].Epoch != 1 || got[0].Leader != addressA || got[0].Version == "" {
		t.Errorf("the leader: %+v", got[0])
	}
	if got[1].Leading || !got[1].Ready || got[1].Leader != addressA {
		t.Errorf("the follower: %+v", got[1])
	}
	if got[2].Reachable || !strings.Contains(got[2].Error, "refused") {
		t.Errorf("nobody: %+v", got[2])
	}

	p = start(t, nil, "tso", "status", "--tso", addressB)
	if code := p.wait(t); code != cli.ExitUnavailable || !strings.Contains(p.stdout.String(), "stands by") {
		t.Errorf("no leader: exit status %d, %q", code, p.stdout.String())
	}
	for name, args := range map[string][]string{
		"a bad form":      {"--tso", addressA, "-o", "xml"},
		"no servers":      {"--tso", ","},
		"too many":        {"--tso", strings.Repeat("h:1,", oracle.MaxServers+1)},
		"a bad time":      {"--tso", addressA, "--timeout", "-1s"},
		"no list":         {},
		"a bad CA":        {"--tso", addressA, "--tls-ca", "/none"},
		"another machine": {"--tso", "192.0.2.1:7070,x"},
	} {
		p := start(t, nil, append([]string{"tso", "status"}, args...)...)
		want := cli.ExitUsage
		if name == "another machine" { // that is what its line says
			want = cli.ExitUnavailable
		}
		if code := p.wait(t); code != want {
			t.Errorf("%s: exit status %d, %q", name, code, p.stderr.String())
		}
	}
}

// The help of every command, a file for each, and an example in each.
func TestHelp(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		var out bytes.Buffer
		cmd.SetOut(&out)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		if cmd.Runnable() && !cmd.HasSubCommands() && cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		golden.Compare(t, "help/"+strings.ReplaceAll(cmd.CommandPath(), " ", "_")+".txt", out.String())
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				walk(sub)
			}
		}
	}
	walk(newRoot())
}
