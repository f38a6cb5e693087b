package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/emulator_test/internal/simulation"
)

// TestShrinkKeepsWhatFails: of an episode that fails as long as it has 600 transactions, two
// clients and one kind of faults, that much is left.
func TestShrinkKeepsWhatFails(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	script := `#!/bin/sh
case "$*" in *"--size 1200"*|*"--size 600"*) ;; *) enough=no;; esac
case "$*" in *"--clients 1"*) enough=no;; esac
case "$*" in *"--without process killed"*) enough=no;; esac
problems='["lost"]'; [ "$enough" = no ] && problems=null
echo '{"Episode":7,"Report":{"Problems":'$problems',"History":{},"Faults":{"process killed":1,"process stopped":2,"store: late":3}}}' >&3
`
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	f := &flags{program: program, seed: 1, size: 1200, faults: "some", shrinkFor: 1 << 40, stuckAfter: 1 << 40}
	var out strings.Builder
	f.shrink(t.Context(), &out, told{Episode: 7, Report: &simulation.Report{
		History: &history.Report{}, Faults: map[string]int{"process killed": 1, "process stopped": 2, "store: late": 3},
	}})
	want := `--size 600 --faults some --episode 7 --sessions 1 --workers 1 --without "process stopped" --without "store: late"`
	if !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "again in 3 of 3") {
		t.Errorf("got %s\nwant %s", out.String(), want)
	}
}

// TestShrinkEndsInTime: nothing is tried any more when the time is up, or the command was ended.
func TestShrinkEndsInTime(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"no time": t.Context(), "ended": ended} {
		f := &flags{program: "/nonexistent", size: 1200, stuckAfter: 1 << 40}
		if name == "ended" {
			f.shrinkFor = 1 << 40
		}
		var out strings.Builder
		f.shrink(ctx, &out, told{Report: &simulation.Report{History: &history.Report{}}})
		if want := fmt.Sprintf("again in 0 of %d", attempts); !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s", name, out.String())
		}
	}
}
