package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/measure"
	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
)

// asProgram makes the test binary behave as the program: benchmarks start processes of their own.
const asProgram = "PERCOLATOR_TEST_AS_PROGRAM"

// The exit statuses.
const (
	exitOK    = 0
	exitUsage = 2
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// program is the program as a process of its own.
type program struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer // read after wait
	ended          chan struct{}
}

func start(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{cmd: exec.Command(os.Args[0], args...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%v wrote:\n%s", args, p.stderr.String())
		}
	})
	return p
}

// programLimit is how long a test waits for a program, which may share two slow processors with
// many others.
const programLimit = 4 * time.Minute

// wait returns the exit status.
func (p *program) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(programLimit):
		t.Fatal("the program does not end")
		return -1
	}
}

// measured runs a benchmark and returns its report.
func measured(t *testing.T, args ...string) *report.Report {
	t.Helper()
	p := start(t, append(args, "-o", "json")...)
	if code := p.wait(t); code != exitOK {
		t.Fatalf("%v: exit status %d: %s", args, code, p.stderr.String())
	}
	var r report.Report
	if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Benchmark != args[0] || r.GoVersion == "" || r.CPUs == 0 || r.Date == "" || r.Title == "" {
		t.Errorf("%+v", r)
	}
	return &r
}

// drawn checks that there are charts.
func drawn(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		for _, ext := range []string{".svg", ".png"} {
			if info, err := os.Stat(filepath.Join(dir, name+ext)); err != nil || info.Size() == 0 {
				t.Errorf("chart %s: %v", name, err)
			}
		}
	}
}

// refuses checks that flags are refused.
func refuses(t *testing.T, name string, wrong ...[]string) {
	t.Helper()
	for _, args := range wrong {
		if code := start(t, append([]string{name}, args...)...).wait(t); code != exitUsage {
			t.Errorf("%s %v: exit status %d", name, args, code)
		}
	}
}

// ordered tells whether a figure has a least, a median and a greatest, all above 0.
func ordered(f report.Figure) bool {
	return f.Spread != nil && 0 < f.Spread.Min && f.Spread.Min <= f.Value && f.Value <= f.Spread.Max
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
	walk(measure.Command())
}

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
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

func TestErrorsArePrintable(t *testing.T) {
	t.Parallel()
	p := start(t, "--\x1b[2J\u202e\x9b\r")
	<-p.ended
	if code, want := p.cmd.ProcessState.ExitCode(), `--\x1b[2J\u202e\x9b\r`; code != exitUsage || !strings.Contains(p.stderr.String(), want) {
		t.Errorf("exit status %d, %q, want %s", code, p.stderr.String(), want)
	}
}
