//go:build unix

package emulator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// guaranteeChildEnv carries a guaranteeOrder to a worker process: this test binary, run again.
const guaranteeChildEnv = "PERCOLATOR_TEST_GUARANTEE_CHILD"

// guaranteeProcessLimit bounds a worker process and the whole test.
const guaranteeProcessLimit = 3 * time.Minute

type guaranteeOrder struct {
	Store, Oracle     string // addresses
	Project, Instance string
}

// TestGuaranteeChild is a worker process, which works until its input ends; in any other process it
// has nothing to do.
func TestGuaranteeChild(t *testing.T) {
	encoded := os.Getenv(guaranteeChildEnv)
	if encoded == "" {
		return
	}
	var order guaranteeOrder
	if err := json.Unmarshal([]byte(encoded), &order); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), guaranteeProcessLimit)
	defer cancel()
	go func() { // the parent says that it is enough, or is gone
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	oracle, err := tso.Dial(ctx, order.Oracle)
	if err != nil {
		t.Fatal(err)
	}
	defer oracle.Close()
	c, err := percolator.NewClient(ctx, percolator.Config{Project: order.Project, Instance: order.Instance, Oracle: oracle, LockTTL: guaranteeLockTTL},
		emulator.Connect(order.Store)...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var calls atomic.Int64
	o := newGuaranteeObservers(c, func() bool { return true }, &calls)
	w, err := observers.NewWorker(c, o.Registry, guaranteeWorkerConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
}

// The same promises with workers that are processes: one after the other is killed by SIGKILL, and
// others are stopped by SIGSTOP until their locks are dead and others have done their work, and
// then continued.
func TestGuaranteesOfProcesses(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	const workers = 3
	rounds := fixture.Of(8, 2)
	changes := 40 * rounds
	p := newGuaranteeProcesses(t)
	for range workers {
		p.launch()
	}
	writes := &guaranteeWrites{want: int64(changes), poked: map[percolator.Cell]tso.Timestamp{}}
	seed := rand.Uint64()
	if *guaranteeSeed != 0 {
		seed = *guaranteeSeed
	}
	r := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	var stopped *exec.Cmd
	killed := 0
	for round := range rounds {
		for writes.committed.Load() < int64((round+1)*changes/rounds) && p.ctx.Err() == nil {
			writes.one(p.ctx, p.client, "writer", r)
		}
		p.acks(int64(round+1) * 10) // the workers have started
		if stopped != nil {
			p.signal(stopped, syscall.SIGCONT)
			stopped = nil
		}
		i := r.IntN(workers)
		if round%2 == 0 {
			p.signal(p.children[i], syscall.SIGKILL)
			_ = p.children[i].Wait()
			p.children = append(p.children[:i:i], p.children[i+1:]...)
			p.launch()
			killed++
		} else {
			stopped = p.children[i]
			p.signal(stopped, syscall.SIGSTOP)
		}
		p.clock.Advance(guaranteeLockTTL * 6 / 5)
	}
	if stopped != nil {
		p.signal(stopped, syscall.SIGCONT)
	}
	p.clock.Advance(guaranteeLockTTL * 6 / 5)
	rest := &guaranteeCheck{name: restCheck, occasions: killed}
	if err := awaitQuiet(p.ctx, p.env.Store(), func() (int64, bool) { return p.records(), false }); err != nil {
		rest.fail("%v", err)
	}
	p.end()
	h, err := readGuarantees(p.ctx, p.client, p.env.Store())
	if err != nil {
		t.Fatal(err)
	}
	all, acks, runs := h.total()
	t.Logf("%d changes from outside, %d in all, %d acknowledgments, %d records of runs; %d processes killed", writes.committed.Load(), all, acks, runs, killed)
	for _, c := range append(h.check(writes), rest) {
		for _, b := range c.broken {
			t.Errorf("%s: %s", c.name, b)
		}
	}
}

// guaranteeProcesses is a store, an oracle that other processes can reach, and the worker
// processes.
type guaranteeProcesses struct {
	testing.TB
	ctx      context.Context
	env      *percolatortest.Env
	clock    percolatortest.Clock // of the oracle
	client   *percolator.Client
	order    string
	children []*exec.Cmd
	inputs   map[*exec.Cmd]io.Closer
}

func newGuaranteeProcesses(t *testing.T) *guaranteeProcesses {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), guaranteeProcessLimit)
	t.Cleanup(cancel)
	s, err := emulator.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	p := &guaranteeProcesses{TB: t, ctx: ctx, env: percolatortest.New(t, guaranteeSchema(), percolatortest.Address(s.Addr())), inputs: map[*exec.Cmd]io.Closer{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	oracle, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{Now: p.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- oracle.Serve(serving, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the oracle: %v", err)
		}
	})
	p.client, err = percolator.NewClient(ctx, percolator.Config{Project: p.env.Project, Instance: p.env.Instance, Oracle: oracle, LockTTL: guaranteeLockTTL}, p.env.Options()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.client.Close() })
	order, err := json.Marshal(guaranteeOrder{Store: s.Addr(), Oracle: l.Addr().String(), Project: p.env.Project, Instance: p.env.Instance})
	if err != nil {
		t.Fatal(err)
	}
	p.order = string(order)
	return p
}

// launch starts a worker process.
func (p *guaranteeProcesses) launch() {
	p.Helper()
	binary, err := os.Executable()
	if err != nil {
		p.Fatal(err)
	}
	cmd := exec.CommandContext(p.ctx, binary, "-test.run=^TestGuaranteeChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), guaranteeChildEnv+"="+p.order, "BIGTABLE_EMULATOR_HOST="+storeAddr)
	in, err := cmd.StdinPipe()
	if err != nil {
		p.Fatal(err)
	}
	said := new(lockedBuffer)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	p.children = append(p.children, cmd)
	p.inputs[cmd] = in
	p.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if p.Failed() {
			p.Logf("a worker process said:\n%s", said)
		}
	})
}

func (p *guaranteeProcesses) signal(cmd *exec.Cmd, s syscall.Signal) {
	p.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		p.Fatalf("%v: %v", s, err)
	}
}

// end lets the processes come to their end.
func (p *guaranteeProcesses) end() {
	p.Helper()
	for _, cmd := range p.children {
		_ = p.inputs[cmd].Close()
	}
	for _, cmd := range p.children {
		if err := cmd.Wait(); err != nil {
			p.Errorf("a worker process ended with %v", err)
		}
	}
}

// records counts all write records: as long as that stays, nothing was committed.
func (p *guaranteeProcesses) records() int64 { return p.count(bigtable.FamilyFilter("write")) }

func (p *guaranteeProcesses) count(f bigtable.Filter) (n int64) {
	for _, table := range []string{guaranteeDocs, guaranteeLeaves, guaranteeRuns} {
		err := p.env.Store().Open(table).ReadRows(p.ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
			n += int64(len(r["write"]))
			return true
		}, bigtable.RowFilter(bigtable.ChainFilters(f, bigtable.StripValueFilter())))
		if err != nil && p.ctx.Err() == nil {
			p.Error(fmt.Errorf("counting records: %w", err))
		}
	}
	return n
}

// acks waits until there are n acknowledgments.
func (p *guaranteeProcesses) acks(n int64) {
	p.Helper()
	acks := bigtable.ChainFilters(bigtable.FamilyFilter("write"), bigtable.ColumnRangeFilter("write", "\x00ack\x00", "\x00ack\x01"))
	for p.count(acks) < n {
		pause(p.ctx, 10*time.Millisecond)
		if p.ctx.Err() != nil {
			p.Fatalf("there never were %d acknowledgments", n)
		}
	}
}
