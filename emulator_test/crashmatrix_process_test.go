//go:build unix

package emulator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// crashPoint is a place in the child's transaction.
type crashPoint struct {
	role, where         string
	nth                 int
	after               bool // behind the request: its answer has come
	begin               bool // it is the start timestamp that is asked for
	prewrite, locked    bool // it is a prewrite; there is an earlier one
	toCommit, committed bool // it is the request of the commit point; it comes later
}

func (p crashPoint) String() string {
	side := "before"
	if p.after {
		side = "after"
	}
	return fmt.Sprintf("%s %s %s %d", side, p.role, p.where, p.nth)
}

// passed tells whether the commit point lies behind.
func (p crashPoint) passed() bool { return p.committed || p.toCommit && p.after }

// conflicts tells whether a process that is stopped here loses its locks, or its rows if others rewrite them.
func (p crashPoint) conflicts(rewritten bool) bool {
	holds := p.locked || p.prewrite && p.after
	started := !p.begin || p.after
	return !p.passed() && (holds || rewritten && started)
}

// crashFloor is the least number of processes that are killed or stopped.
const crashFloor = 80

// A process that commits a transaction is killed, or stopped until its locks are dead and resolved and then continued, before and after each of
// its requests.
func TestProcessesThatAreKilledOrStopped(t *testing.T) {
	t.Parallel()
	fields := make([]*crashField, 3)
	for i := range fields {
		fields[i] = newCrashField(t)
	}
	type job struct {
		point crashPoint
		fate  string
		comer crashComer
	}
	var jobs []job
	for _, p := range fields[0].points(t) {
		for _, c := range crashComers {
			jobs = append(jobs, job{p, "killed", c}, job{p, "stopped", c})
		}
	}
	work := make(chan job)
	var workers sync.WaitGroup
	var ran, committed atomic.Int64
	for _, f := range fields {
		workers.Go(func() {
			for j := range work {
				t.Run(fmt.Sprintf("%s/%s/%s", j.fate, j.point, j.comer.name), func(t *testing.T) {
					v := f.newVictim(t, j.fate == "stopped")
					if j.fate == "killed" {
						v.playKilled(j.point, j.comer)
					} else {
						v.playStopped(j.point, j.comer)
					}
					ran.Add(1)
					if v.committed {
						committed.Add(1)
					}
				})
			}
		})
	}
	for _, j := range jobs {
		work <- j
	}
	close(work)
	workers.Wait()
	t.Logf("%d processes, %d of which committed", ran.Load(), committed.Load())
	if len(jobs) < crashFloor || committed.Load() == 0 || committed.Load() == ran.Load() {
		t.Errorf("%d points, want at least %d", len(jobs), crashFloor)
	}
}

// playKilled kills the process at the point; then somebody comes.
func (v *victim) playKilled(p crashPoint, c crashComer) {
	v.runTo(p)
	if err := v.cmd.Process.Kill(); err != nil {
		v.Fatal(err)
	}
	if err := v.cmd.Wait(); err == nil {
		v.Error("the process was not killed")
	}
	v.loose = p.prewrite
	v.look()
	if v.committed != p.passed() {
		v.Errorf("killed %s: committed %v", p, v.committed)
	}
	c.meet(v)
	v.finish()
}

// playStopped stops the process at the point until somebody has come.
func (v *victim) playStopped(p crashPoint, c crashComer) {
	held := v.runTo(p)
	pid := v.cmd.Process.Pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		v.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		v.Fatalf("the process does not stop: %v, %v", status, err)
	}
	v.look()
	if v.committed != p.passed() {
		v.Errorf("stopped %s: committed %v", p, v.committed)
	}
	c.meet(v)
	v.goOn(held) // which it learns when it is continued
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		v.Fatal(err)
	}
	v.runToEnd()
	v.look()
	conflicts := p.conflicts(c.rewrites)
	switch r := v.result; {
	case r.Unknown || conflicts != r.Conflict || conflicts != (r.Error != ""):
		v.Errorf("the process was told %+v, want a conflict: %v", r, conflicts)
	case v.committed == conflicts || r.Commit != v.commitTS:
		v.Errorf("committed %v at %d, the process was told %+v", v.committed, v.commitTS, r)
	}
	if n := v.locks(); n != 0 {
		v.Errorf("%d locks left by a process that came to its end", n)
	}
	v.finish()
}

// crashField is a store with an oracle whose clock stands still unless it is moved.
type crashField struct {
	env    *percolatortest.Env
	clock  percolatortest.Clock
	oracle *tso.Server
	addr   string // of the oracle
	other  *percolator.Client
	runs   atomic.Int64
}

func newCrashField(t *testing.T) *crashField {
	t.Helper()
	f := &crashField{env: percolatortest.New(t, crashSchema, percolatortest.Address(storeAddr))}
	f.clock.Stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.addr = l.Addr().String()
	if f.oracle, err = tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{Now: f.clock.Now}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.oracle.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the oracle: %v", err)
		}
	})
	f.other, err = percolator.NewClient(t.Context(), percolator.Config{Project: f.env.Project, Instance: f.env.Instance, Oracle: f.oracle}, f.env.Options()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.other.Close() })
	return f
}

// points runs two processes to their end and returns every point on their way: the requests are not listed, they are recorded.
func (f *crashField) points(t *testing.T) (points []crashPoint) {
	t.Helper()
	seen := map[crashPoint]int{}
	for _, oneByOne := range []bool{false, true} {
		v := f.newVictim(t, oneByOne)
		v.runToEnd()
		if v.look(); !v.committed || v.result.Commit != v.commitTS {
			t.Fatalf("an undisturbed process was told %+v", v.result)
		}
		v.finish()
		for _, p := range v.passedPoints {
			seen[p]++
		}
		points = v.passedPoints
	}
	points = slices.DeleteFunc(points, func(p crashPoint) bool { return p.role == "refresh" || p.where == "percolator_meta/meta" })
	commit, prewrite := -1, -1
	for i, p := range points {
		if seen[p] != 2 {
			t.Fatalf("%s does not come in every run", p)
		}
		if p.role == "commit" && p.where == "P" && commit < 0 {
			commit = i
		}
		if p.role == "prewrite" && prewrite < 0 {
			prewrite = i
		}
	}
	for i := range points {
		p := &points[i]
		p.begin = p.role == "timestamp" && p.nth == 1
		p.prewrite = p.role == "prewrite"
		p.locked = i > prewrite+1 // +1 is the answer of the first one
		p.toCommit = i == commit || i == commit+1
		p.committed = i > commit+1
	}
	return points
}

// victim is one child and its transaction.
type victim struct {
	testing.TB
	ctx    context.Context
	field  *crashField
	prefix string
	began  time.Time

	cmd     *exec.Cmd
	in      *os.File // to the child
	reports *json.Decoder
	out     *os.File // from the child

	start        tso.Timestamp
	result       crashReport
	passedPoints []crashPoint
	count        map[crashPoint]int

	history   []crashVersion
	refused   []tso.Timestamp // other writers that rolled themselves back
	committed bool
	commitTS  tso.Timestamp
	loose     bool // other prewrites may still be on their way
}

// newVictim writes old values and starts a process.
func (f *crashField) newVictim(t *testing.T, oneByOne bool) *victim {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), crashLimit)
	t.Cleanup(cancel)
	v := &victim{TB: t, ctx: ctx, field: f, prefix: fmt.Sprintf("%04d-", f.runs.Add(1)), began: time.Now(), count: map[crashPoint]int{}}
	v.write("old")
	v.launch(crashOrder{Store: storeAddr, Oracle: f.addr, Project: f.env.Project, Instance: f.env.Instance, Prefix: v.prefix, OneByOne: oneByOne})
	return v
}

// launch runs this binary again.
func (v *victim) launch(order crashOrder) {
	v.Helper()
	encoded, err := json.Marshal(order)
	if err != nil {
		v.Fatal(err)
	}
	childIn, in, err := os.Pipe()
	if err != nil {
		v.Fatal(err)
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		v.Fatal(err)
	}
	v.in, v.out, v.reports = in, out, json.NewDecoder(out)
	binary, err := os.Executable()
	if err != nil {
		v.Fatal(err)
	}
	v.cmd = exec.CommandContext(v.ctx, binary, "-test.run=^TestCrashChild$", "-test.count=1")
	v.cmd.Env = append(os.Environ(), crashChildEnv+"="+string(encoded), "BIGTABLE_EMULATOR_HOST="+storeAddr)
	v.cmd.Stdin, v.cmd.ExtraFiles = childIn, []*os.File{childOut}
	var said lockedBuffer
	v.cmd.Stdout, v.cmd.Stderr = &said, &said
	if err := v.cmd.Start(); err != nil {
		v.Fatal(err)
	}
	_, _ = childIn.Close(), childOut.Close()
	v.Cleanup(func() {
		_ = v.cmd.Process.Kill()
		_ = v.cmd.Wait()
		_, _ = in.Close(), out.Close()
		if v.Failed() {
			v.Logf("the process said:\n%s", said.String())
		}
	})
}

// next takes the next report. A request gets its number; false is the end of the process.
func (v *victim) next() (r crashReport, p crashPoint, ok bool) {
	v.Helper()
	if err := v.out.SetReadDeadline(time.Now().Add(crashLimit)); err != nil {
		v.Fatal(err)
	}
	if err := v.reports.Decode(&r); err != nil {
		return r, p, false
	}
	switch r.Role {
	case "result":
		v.result = r
	case "begun":
		v.start = r.Start
	default:
		p = crashPoint{role: r.Role, where: v.nameOf(r.Row), after: r.After}
		v.count[p]++
		p.nth = v.count[p]
		v.passedPoints = append(v.passedPoints, p)
	}
	return r, p, true
}

func (v *victim) nameOf(row string) string {
	for _, name := range crashCells {
		if c := crashCell(v.prefix, name); row == c.Table+"/"+c.Row {
			return name
		}
	}
	return row
}

// runTo lets the process run to the point and returns the report that waits there.
func (v *victim) runTo(want crashPoint) crashReport {
	v.Helper()
	for {
		r, p, ok := v.next()
		if !ok {
			v.Fatalf("the process ended before it came to %s; it was at %v", want, v.passedPoints)
		}
		if p.String() == want.String() && r.Seq != 0 {
			return r
		}
		v.goOn(r)
	}
}

// runToEnd lets the process end.
func (v *victim) runToEnd() {
	v.Helper()
	for {
		r, _, ok := v.next()
		if !ok {
			break
		}
		v.goOn(r)
	}
	if err := v.cmd.Wait(); err != nil {
		v.Errorf("the process ended with %v", err)
	}
}

// goOn gives the permission that a report asks for.
func (v *victim) goOn(r crashReport) {
	v.Helper()
	if r.Seq == 0 {
		return
	}
	if _, err := fmt.Fprintln(v.in, r.Seq); err != nil {
		v.Fatal(err)
	}
}

// finish checks the end: what is stored, and what is read from the snapshots that matter.
func (v *victim) finish() {
	v.Helper()
	v.expire()
	v.settle()
	v.wantAll()
	if v.committed {
		v.wantAll(percolator.AsOfTimestamp(v.commitTS - 1))
		v.wantAll(percolator.AsOfTimestamp(v.commitTS))
	}
}
