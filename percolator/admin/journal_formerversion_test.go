package admin_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/model"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// withoutJournal is the last commit of a version that knows no journal.
const withoutJournal = "5a3bff4e301f3f0e41ce38228c699046740eaf57"

// formerVersion builds testdata/formerversion together with that version.
func formerVersion(t *testing.T) (program string) {
	t.Helper()
	dir := fixture.BuildDir(t)
	run := func(name string, args ...string) error {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Logf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return err
	}
	repository, err := filepath.Abs("../..")
	fixture.Must(t, err)
	if run("git", "-C", repository, "cat-file", "-e", withoutJournal+"^{commit}") != nil {
		t.Skipf("NOT TESTED: whether programs without a journal are refused (J9), as this is no clone with commit %s, or a shallow one; git fetch --unshallow", withoutJournal)
	}
	fixture.Must(t, run("git", "-C", repository, "archive", "-o", filepath.Join(dir, "module.tar"), withoutJournal))
	fixture.Must(t, run("tar", "xf", "module.tar"))
	fixture.Must(t, os.Mkdir(filepath.Join(dir, "cmd", "formerversion"), 0o700))
	source, err := os.ReadFile("testdata/formerversion/main.go")
	fixture.Must(t, err)
	fixture.Must(t, os.WriteFile(filepath.Join(dir, "cmd", "formerversion", "main.go"), source, 0o600))
	programs, err := fixture.Programs(t.Context(), dir, "./cmd/formerversion")
	fixture.Must(t, err)
	return filepath.Join(programs, "formerversion")
}

// lines runs the program in an environment, and returns what it says, line by line.
func lines(t *testing.T, ctx context.Context, program string, env *percolatortest.Env) <-chan string {
	t.Helper()
	at := env.Location()
	cmd := exec.CommandContext(ctx, program, at.Store, at.Oracle, at.Project, at.Instance)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	fixture.Must(t, err)
	fixture.Must(t, cmd.Start())
	said := make(chan string)
	go func() {
		defer close(said)
		for s := bufio.NewScanner(out); s.Scan(); {
			said <- s.Text()
		}
		_ = cmd.Wait()
	}()
	return said
}

// TestFormerVersionIsRefused: a program of a version that knows no journal does not commit in an
// instance that has one (J9). One that runs while the instance gets its journal learns of it, and
// stops before the drain is over; the sweep finds all that it has written without entries.
func TestFormerVersionIsRefused(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	program := formerVersion(t)
	env := percolatortest.New(t, fixture.JournalSchema(true), percolatortest.Listen())
	ctx, c := fixture.Context(t), env.Client
	said := lines(t, ctx, program, env)
	if first := <-said; first != "wrote "+fixture.Key(0) {
		t.Fatal(first)
	}
	fixture.Apply(t, ctx, env, fixture.JournalSchema(false))

	var wrote []string
	var last, drained time.Time
	stopped := make(chan string, 1)
	go func() {
		for line := range said {
			if row, ok := strings.CutPrefix(line, "wrote "); ok {
				wrote, last = append(wrote, row), time.Now()
				continue
			}
			stopped <- line
		}
		close(stopped)
	}()
	done := fixture.Sweep(t, ctx, c, admin.SweepConfig{Wait: func(ctx context.Context, d time.Duration) error {
		if want := model.DrainTime(c.Engine().Store.Timing); d != want {
			t.Errorf("a drain of %v, want %v", d, want)
		}
		time.Sleep(d)
		drained = time.Now()
		return nil
	}})
	line := <-stopped
	if !strings.HasPrefix(line, "stopped: ") || !strings.Contains(line, "upgrade the program") {
		t.Errorf("the program says %q", line)
	}
	if len(wrote) == 0 || !last.Before(drained) {
		t.Errorf("%d rows written after the journal was turned on, the last at %v; the drain ended at %v", len(wrote), last, drained)
	}
	named := fixture.NamedInJournal(t, ctx, c)
	for _, row := range wrote {
		if _, ok := slices.BinarySearch(named, row); !ok {
			t.Errorf("nothing leads to %s", row)
		}
	}
	t.Logf("%d rows written without entries while the journal was on; %+v", len(wrote), done)

	if line := <-lines(t, ctx, program, env); !strings.HasPrefix(line, "refused: ") || !strings.Contains(line, "upgrade the program") {
		t.Errorf("a program that starts says %q", line)
	}
	fixture.Apply(t, ctx, env, fixture.JournalSchema(true)) // and back
	if line := <-lines(t, ctx, program, env); line != "wrote "+fixture.Key(0) {
		t.Errorf("without a journal again: %q", line)
	}
}
