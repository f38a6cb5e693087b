//go:build unix

package emulator_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

const (
	// processEnvs is how many processes run at once, each on tables of its own.
	processEnvs = 3
	// processFloor is the least number of processes that are killed or stopped.
	processFloor = 180
)

// A process that commits a transaction is killed, or stopped until its locks are dead and resolved
// and then continued, before and after each of its requests.
func TestProcessesThatAreKilledOrStopped(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	plain := slices.DeleteFunc(scenarios(), func(s *scenario) bool { return s.name != "commit" })
	runMatrix(t, processEnvs, processFloor, plain, processFaults(), percolatortest.Address(storeAddr), percolatortest.Listen())
}

// processFaults befall a process. Each stops the process's other requests at the target, so that
// the order of what the store has seen is that of the matrix.
func processFaults() []*fault {
	before := func(x *crashRun, id requestID) percolatortest.Action { return x.stopAt(id, x.hold) }
	after := func(x *crashRun, id requestID) percolatortest.Action { return x.stopAt(id, x.hold.Answer()) }
	kill := func(x *crashRun) { x.victim.(*process).kill() }
	stop := func(x *crashRun) { x.victim.(*process).stop() }
	untold := expectation{applied: true}
	return []*fault{
		{
			name: "the process killed before it", leaves: true, launch: launch, decide: before, unfold: kill,
			expect: func(s crashPoint, _ bool) expectation { return s.pick(wantEither, wantEither, untold) },
		},
		{
			name: "the process killed after it", leaves: true, launch: launch, decide: after, unfold: kill,
			expect: func(s crashPoint, _ bool) expectation { return s.pick(wantEither, untold, untold) },
		},
		{
			name: "the process stopped before it", leaves: true, sequential: true, launch: launch, decide: before, unfold: stop,
			expect: expectHeld, passed: func(s crashPoint) bool { return s.after }, without: crashPoint.amongPrewrites,
		},
		{
			name: "the process stopped after it", leaves: true, sequential: true, launch: launch, decide: after, unfold: stop,
			expect: expectStoppedAfter, passed: func(s crashPoint) bool { return !s.before }, without: crashPoint.amongPrewrites,
		},
	}
}

// process is a child that runs the transaction of a run.
type process struct {
	*crashRun
	cmd     *exec.Cmd
	in, out *os.File
	reports *json.Decoder
	said    lockedBuffer
	killed  bool
}

// launch runs this binary again.
func launch(x *crashRun, c *matrixCell) victim {
	x.Helper()
	encoded, err := json.Marshal(crashOrder{
		At: x.env.Location(), Scenario: c.scenario.name, Fault: c.fault.name, Prefix: x.prefix,
		Role: c.target.role, Where: c.target.where, Nth: c.target.nth,
	})
	fixture.Must(x, err)
	childIn, in, err := os.Pipe()
	fixture.Must(x, err)
	out, childOut, err := os.Pipe()
	fixture.Must(x, err)
	binary, err := os.Executable()
	fixture.Must(x, err)
	p := &process{crashRun: x, in: in, out: out, reports: json.NewDecoder(out)}
	p.cmd = exec.CommandContext(x.ctx, binary, "-test.run=^TestCrashChild$", "-test.count=1")
	p.cmd.Env = append(os.Environ(), crashChildEnv+"="+string(encoded), "BIGTABLE_EMULATOR_HOST="+storeAddr)
	p.cmd.Stdin, p.cmd.ExtraFiles = childIn, []*os.File{childOut}
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	fixture.Must(x, p.cmd.Start())
	_, _ = childIn.Close(), childOut.Close()
	return p
}

// next is the child's next report.
func (p *process) next() (r crashReport) {
	p.Helper()
	fixture.Must(p, p.out.SetReadDeadline(time.Now().Add(runLimit)))
	if err := p.reports.Decode(&r); err != nil {
		p.Fatalf("the process ended before its time: %v\n%s", err, p.said.String())
	}
	p.start.Store(int64(r.Start))
	return r
}

func (p *process) awaitTarget() {
	p.Helper()
	if r := p.next(); !r.Waits {
		p.Fatalf("the process never sent %s: %+v", p.target, r)
	}
}

// kill kills the process at its target. Other prewrites may still be on their way.
func (p *process) kill() {
	p.Helper()
	p.awaitTarget()
	p.killed, p.loose = true, p.target.role == "prewrite"
	fixture.Must(p, p.cmd.Process.Kill())
	if err := p.cmd.Wait(); err == nil {
		p.Error("the process was not killed")
	}
}

// stop stops the process at its target.
func (p *process) stop() {
	p.Helper()
	p.awaitTarget()
	pid := p.cmd.Process.Pid
	fixture.Must(p, syscall.Kill(pid, syscall.SIGSTOP))
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		p.Fatalf("the process does not stop: %v, %v", status, err)
	}
}

// resume continues a process that was stopped.
func (p *process) resume() {
	p.Helper()
	if p.killed {
		return
	}
	_, err := fmt.Fprintln(p.in, "go on")
	fixture.Must(p, err)
	fixture.Must(p, p.cmd.Process.Signal(syscall.SIGCONT))
}

// awaitEnd waits for the process to end. Nobody is told anything by one that was killed.
func (p *process) awaitEnd() result {
	p.Helper()
	if p.killed {
		return result{err: fmt.Errorf("killed: %w", percolator.ErrOutcomeUnknown)}
	}
	r := p.next()
	p.read = r.Read
	if err := p.cmd.Wait(); err != nil {
		p.Errorf("the process ended with %v", err)
	}
	return r.result()
}

func (p *process) lives() bool { return !p.killed }

func (p *process) end() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	_, _ = p.in.Close(), p.out.Close()
	if p.Failed() {
		p.Logf("the process said:\n%s", p.said.String())
	}
}

// lockedBuffer collects what a process says.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
