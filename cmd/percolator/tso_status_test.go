package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/tsopb"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// A leader, a follower, one in trouble and one that is gone.
func sampleAnswers() []serverStatus {
	leader := &tsopb.GetStatusResponse{
		Server: "one", Version: "v1.2.3", Leading: true, Ready: true, Leader: "tso-a:7070", Epoch: 7, Record: 4711,
		HighWater: int64(tso.MaxTimestamp) / 4, Served: 12345, StoreAnsweredMs: 12,
	}
	follower := &tsopb.GetStatusResponse{Server: "two", Version: "v1.2.3", Ready: true, Leader: "tso-a:7070", Epoch: 7, Record: 4711, HighWater: leader.GetHighWater()}
	troubled := &tsopb.GetStatusResponse{Server: "three", Reason: "the store has not answered yet", StoreAnsweredMs: -1}
	return []serverStatus{
		newServerStatus("tso-a:7070", leader, nil), newServerStatus("tso-b:7070", follower, nil),
		newServerStatus("tso-c:7070", troubled, nil), newServerStatus("tso-d:7070", nil, errors.New("connection refused")),
	}
}

func TestStatusOutput(t *testing.T) {
	t.Parallel()
	var table, text bytes.Buffer
	writeTable(&table, sampleAnswers())
	golden(t, "status.table", table.String())
	if err := (&outputFlag{outputJSON}).emit(&text, sampleAnswers(), nil); err != nil {
		t.Fatal(err)
	}
	golden(t, "status.json", text.String())
}

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
	if code := p.wait(t); code != exitOK {
		t.Fatalf("exit status %d, %q", code, p.stderr.String())
	}
	var got []serverStatus
	if err := json.Unmarshal([]byte(p.stdout.String()), &got); err != nil || len(got) != 3 {
		t.Fatalf("%v: %q", err, p.stdout.String())
	}
	if !got[0].Leading || got[0].state() != "leads" || got[0].Epoch != 1 || got[0].Leader != addressA || got[0].Version == "" {
		t.Errorf("the leader: %+v", got[0])
	}
	if got[1].Leading || got[1].state() != "stands by" || got[1].Leader != addressA {
		t.Errorf("the follower: %+v", got[1])
	}
	if got[2].Reachable || got[2].state() != "unreachable" || !strings.Contains(got[2].Error, "refused") {
		t.Errorf("nobody: %+v", got[2])
	}

	p = start(t, nil, "tso", "status", "--tso", addressB)
	if code := p.wait(t); code != exitUnavailable || !strings.Contains(p.stdout.String(), "stands by") {
		t.Errorf("no leader: exit status %d, %q", code, p.stdout.String())
	}
	for name, args := range map[string][]string{
		"a bad form":      {"--tso", addressA, "-o", "xml"},
		"no servers":      {"--tso", ","},
		"too many":        {"--tso", strings.Repeat("h:1,", maxServers+1)},
		"a bad time":      {"--tso", addressA, "--timeout", "-1s"},
		"no list":         {},
		"a bad CA":        {"--tso", addressA, "--tls-ca", "/none"},
		"another machine": {"--tso", "192.0.2.1:7070,x"},
	} {
		p := start(t, nil, append([]string{"tso", "status"}, args...)...)
		want := exitUsage
		if name == "another machine" { // that is what its line says
			want = exitUnavailable
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
		golden(t, "help/"+strings.ReplaceAll(cmd.CommandPath(), " ", "_")+".txt", out.String())
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				walk(sub)
			}
		}
	}
	walk(newRoot())
}
