package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/tso"
)

// devAddressesShown is what a program reads of "dev".
type devAddressesShown struct{ Bigtable, Oracle, Console, Project, Instance, Data string }

// devArgs run "dev" with a snapshot, at free ports.
func devArgs(data string) []string {
	const free = "127.0.0.1:0"
	return []string{"dev", "--bigtable", free, "--oracle", free, "--console", free, "--schema", "testdata/schema/accounts.yaml", "--save-every", "0s", "--data", data, "-o", "json"}
}

// startDev starts "dev" and returns what it printed when it was ready.
func startDev(t *testing.T, data string) (*program, devAddressesShown) {
	t.Helper()
	p := start(t, nil, devArgs(data)...)
	var a devAddressesShown
	for deadline := time.Now().Add(programLimit); json.Unmarshal([]byte(p.stdout.String()), &a) != nil; time.Sleep(time.Millisecond) {
		select {
		case <-p.ended:
			t.Fatal("dev ended before it was ready")
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("dev is not ready")
		}
	}
	return p, a
}

// run runs another command with what dev has printed.
func (a devAddressesShown) run(t *testing.T, args ...string) string {
	t.Helper()
	env := []string{"BIGTABLE_EMULATOR_HOST=" + a.Bigtable, "PERCOLATOR_TSO_ADDR=" + a.Oracle, "PERCOLATOR_PROJECT=" + a.Project, "PERCOLATOR_INSTANCE=" + a.Instance}
	p := start(t, env, args...)
	if code := p.wait(t); code != cli.ExitOK {
		t.Fatalf("%v: exit status %d, %s", args, code, p.stderr.String())
	}
	return p.stdout.String()
}

// A life of the process: what is written is there after SIGTERM and a new start, and time goes on.
func TestDevProcess(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	data := filepath.Join(t.TempDir(), "dev.snapshot")
	p, a := startDev(t, data)
	if a.Project != "dev" || a.Instance != "dev" || a.Data != data || !strings.HasPrefix(a.Console, "http://127.0.0.1:") {
		t.Errorf("printed %+v", a)
	}
	awaitPage(t, strings.TrimSuffix(a.Console, "/")+"/", http.StatusOK, "<title>Overview")
	var wrote struct{ Committed tso.Timestamp }
	if err := json.Unmarshal([]byte(a.run(t, "set", "accounts", "Bob", "balance", "10", "-o", "json")), &wrote); err != nil {
		t.Fatal(err)
	}
	a.run(t, "tso", "next")
	p.signal(t, syscall.SIGTERM)
	if code := p.wait(t); code != cli.ExitOK {
		t.Fatalf("after SIGTERM the exit status is %d", code)
	}

	p, a = startDev(t, data)
	var read struct {
		Snapshot tso.Timestamp
		Cells    []struct{ Value string }
	}
	if err := json.Unmarshal([]byte(a.run(t, "get", "accounts", "Bob", "balance", "-o", "json")), &read); err != nil {
		t.Fatal(err)
	}
	if len(read.Cells) != 1 || read.Cells[0].Value != "10" || read.Snapshot <= wrote.Committed {
		t.Errorf("read %+v, want 10 after %d", read, wrote.Committed)
	}
	p.signal(t, os.Interrupt)
	if code := p.wait(t); code != cli.ExitOK {
		t.Errorf("after an interrupt the exit status is %d", code)
	}
}

func TestDevTwoOnOneFile(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "dev.snapshot")
	p, a := startDev(t, data)
	second := start(t, nil, devArgs(data)...)
	if code := second.wait(t); code != cli.ExitFailure || !strings.Contains(second.stderr.String(), "in use by another process") {
		t.Errorf("the second: exit status %d, %q", code, second.stderr.String())
	}
	a.run(t, "set", "accounts", "Bob", "balance", "10")
	p.signal(t, syscall.SIGKILL)
	p.wait(t)
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(data+".running", long, long); err != nil { // nobody is left who could finish what is lost
		t.Fatal(err)
	}
	startDev(t, data) // the lock is gone with the process
}
