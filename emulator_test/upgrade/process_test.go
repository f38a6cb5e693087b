//go:build unix

package upgrade

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// rolling is an instance whose processes are of several revisions.
type rolling struct {
	*testing.T
	*board
	at       percolatortest.Location
	dir      string
	seed     uint64
	history  *history.Recording
	launched int
}

// process is a member that runs.
type process struct {
	*rolling
	of    programs
	order order
	cmd   *exec.Cmd
	input io.Closer
	said  output
}

// output collects what a process says.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// launch starts a member of a revision.
func (r *rolling) launch(of programs, o order) *process {
	r.Helper()
	r.launched++
	name := strconv.Itoa(r.launched)
	o.Name, o.Index, o.Location, o.Seed = of.name+"-"+o.Role+"-"+name, r.launched, r.at, r.seed
	o.Board, o.Save = filepath.Join(r.dir, "board"), filepath.Join(r.dir, name)
	encoded, err := json.Marshal(o)
	must(r, err)
	p := &process{rolling: r, of: of, order: o, cmd: exec.CommandContext(r.Context(), of.member, "-test.run=^TestMember$", "-test.count=1")}
	p.cmd.Env = append(os.Environ(), orderEnv+"="+string(encoded))
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	p.input, err = p.cmd.StdinPipe()
	must(r, err)
	must(r, p.cmd.Start())
	r.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		if r.Failed() {
			r.Logf("%s said:\n%s", p.order.Name, &p.said)
		}
	})
	return p
}

// steps is how far the process has come.
func (p *process) steps() int64 { return p.Steps[p.order.Index].Load() }

// end lets the process come to its end, and adds what it has recorded.
func (p *process) end() {
	p.Helper()
	must(p, p.input.Close())
	p.await()
}

func (p *process) await() {
	p.Helper()
	if err := p.cmd.Wait(); err != nil {
		p.Fatalf("%s ended with %v", p.order.Name, err)
	}
	if p.order.Role == "oracle" {
		return
	}
	f, err := os.Open(p.order.Save)
	must(p, err)
	defer f.Close()
	must(p, p.history.Add(f))
}

// kill ends the process at once. Nobody learns what it has recorded.
func (p *process) kill() {
	p.Helper()
	must(p, p.cmd.Process.Kill())
	_ = p.cmd.Wait()
}

// percolator runs a command of a revision.
func (r *rolling) percolator(of programs, words ...string) string {
	r.Helper()
	out, err := r.try(of, words...)
	if err != nil {
		r.Fatalf("percolator %s of the %s revision: %v\n%s", strings.Join(words, " "), of, err, out)
	}
	return out
}

// collect has a revision collect. A slow machine ends a cycle by the time limit of a request; the
// next command goes on from there.
func (r *rolling) collect(of programs) (said string) {
	r.Helper()
	r.within(fmt.Sprintf("the %s revision collects", of), func() bool {
		out, err := r.try(of, "gc", "run", "--retention", "1m", "--yes")
		if said += out; err != nil && !strings.Contains(out, "DeadlineExceeded") {
			r.Fatalf("the collection of the %s revision: %v\n%s", of, err, said)
		}
		return err == nil
	})
	return said
}

func (r *rolling) try(of programs, words ...string) (string, error) {
	r.Helper()
	for name, value := range map[string]string{
		"BIGTABLE_EMULATOR_HOST": r.at.Store, "PERCOLATOR_TSO_ADDR": r.at.Oracle,
		"PERCOLATOR_PROJECT": r.at.Project, "PERCOLATOR_INSTANCE": r.at.Instance,
	} {
		r.Setenv(name, value)
	}
	return command(r.T, root, append([]string{of.percolator}, words...)...)
}

// stalled is when a condition counts as one that never holds, however slow the machine is.
const stalled = 5 * time.Minute

// within waits for a condition.
func (r *rolling) within(what string, holds func() bool) {
	r.Helper()
	for end := time.Now().Add(stalled); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("not within %v: %s", stalled, what)
		}
	}
}
