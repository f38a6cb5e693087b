//go:build unix

package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// orderEnv carries an order to a member: a test binary, of this revision or of another, that runs
// TestMember.
const orderEnv = "PERCOLATOR_TEST_UPGRADE_MEMBER"

type order struct {
	Role     string // "schema", "clients", "worker" or "oracle"
	Name     string
	Location percolatortest.Location
	Board    string // file of a board
	Index    int    // of Board.Steps
	Save     string // file for the recording
	Seed     uint64
	Crashes  bool          // a worker ends by a crash of its client
	Listen   string        // address of an oracle
	Pause    time.Duration // of a client between two transactions
}

// board is memory that all processes share.
type board struct {
	Events atomic.Int64 // of the recordings
	Skew   atomic.Int64 // of the oracles' clocks, in nanoseconds
	Steps  [64]atomic.Int64
	Work   workload.Counters
}

func openBoard(t *testing.T, path string) *board {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	defer f.Close()
	size := int(unsafe.Sizeof(board{}))
	must(t, f.Truncate(int64(size)))
	mapped, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	must(t, err)
	return (*board)(unsafe.Pointer(&mapped[0])) // mapped for as long as the process lives
}

const (
	lockTTL   = 2 * time.Second
	stepLimit = 5 * time.Second
	limit     = 20 * time.Minute // of each process: clients live as long as the test
)

func configure(cfg *percolator.Config) { cfg.LockTTL, cfg.Retention = lockTTL, time.Minute }

func schema() *percolator.Schema {
	return workload.Schema(percolator.Timing{RequestLifetime: time.Second, MetaMaxAge: time.Second})
}

// member is a process of one revision.
type member struct {
	*testing.T
	*board
	order order
	work  *workload.Workload
}

// TestMember carries out an order until its input ends; in any other process it has nothing to do.
func TestMember(t *testing.T) {
	encoded := os.Getenv(orderEnv)
	if encoded == "" {
		return
	}
	m := member{T: t}
	must(t, json.Unmarshal([]byte(encoded), &m.order))
	m.board = openBoard(t, m.order.Board)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	go func() { // the parent says that it is enough, or is gone
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if m.order.Role == "oracle" {
		m.oracle(ctx)
		return
	}
	recording := history.Counting(&m.Events)
	m.work = workload.Sharing(&m.Work, recording)
	env := percolatortest.Join(t, m.order.Location)
	map[string]func(context.Context, *percolatortest.Env){"schema": m.schema, "clients": m.clients, "worker": m.worker}[m.order.Role](ctx, env)
	f, err := os.Create(m.order.Save)
	must(t, err)
	must(t, recording.Save(f))
	must(t, f.Close())
}

func (m member) schema(ctx context.Context, env *percolatortest.Env) {
	must(m, percolator.CreateSchema(ctx, env.Project, env.Instance, schema(), env.Options()...))
	must(m, m.work.Setup(ctx, env.NewClient(percolatortest.Configure(configure))))
}

// oracle serves, with a clock that the test controls.
func (m member) oracle(ctx context.Context) {
	store, err := bigtable.NewClientWithConfig(ctx, m.order.Location.Project, m.order.Location.Instance,
		bigtable.ClientConfig{MetricsProvider: bigtable.NoopMetricsProvider{}}, emulator.Connect(m.order.Location.Store)...)
	must(m, err)
	defer store.Close()
	l, err := net.Listen("tcp", m.order.Listen)
	must(m, err)
	s, err := tso.NewServer(tso.NewBigtableStore(store.Open(tso.BigtableTable), "default"), tso.ServerConfig{
		Now:   func() time.Time { return time.Now().Add(time.Duration(m.Skew.Load())) },
		Lease: time.Second, Window: time.Second,
	})
	must(m, err)
	must(m, s.Serve(ctx, l))
}

// clients makes transactions with a client that lives and others that die one after the other.
func (m member) clients(ctx context.Context, env *percolatortest.Env) {
	r := rand.New(rand.NewPCG(m.order.Seed, uint64(m.order.Index)))
	var sessions sync.WaitGroup
	living := env.NewClient(percolatortest.Name(m.order.Name), percolatortest.Configure(configure))
	for range 3 {
		m.session(ctx, &sessions, env, living, rand.New(rand.NewPCG(r.Uint64(), 0)))
	}
	for n := 0; ctx.Err() == nil; n++ {
		var requests atomic.Int64
		last := 20 + r.Int64N(150)
		c := env.NewClient(percolatortest.Name(fmt.Sprintf("%s-%d", m.order.Name, n)), percolatortest.Configure(configure),
			percolatortest.Handler(func(percolatortest.Request) percolatortest.Action {
				if requests.Add(1) >= last {
					return percolatortest.Crash
				}
				return percolatortest.Pass
			}))
		var dying sync.WaitGroup
		m.session(ctx, &dying, env, c, rand.New(rand.NewPCG(r.Uint64(), 0)))
		dying.Wait()
	}
	sessions.Wait()
}

func (m member) session(ctx context.Context, running *sync.WaitGroup, env *percolatortest.Env, c *percolator.Client, r *rand.Rand) {
	f := env.FaultsOf(c)
	s := m.work.NewSession(c, m.order.Name, f.Crashed, r)
	running.Go(func() {
		for ctx.Err() == nil && !f.Crashed() {
			sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepLimit)
			s.Step(sctx)
			cancel()
			f.Forget()
			m.Steps[m.order.Index].Add(1)
			time.Sleep(m.order.Pause)
		}
	})
}

// worker runs the observers.
func (m member) worker(ctx context.Context, env *percolatortest.Env) {
	c := env.NewClient(percolatortest.Name(m.order.Name), percolatortest.Configure(configure))
	w, err := observers.NewWorker(c, m.work.Observers(m.order.Name, c), observers.Config{
		Concurrency: 8, MaxBackoff: 200 * time.Millisecond, MaxAttempts: 1000, DrainTimeout: 2 * time.Second, DisableCollection: true,
	})
	must(m, err)
	go func() {
		for ctx.Err() == nil {
			m.Steps[m.order.Index].Store(w.Stats().Runs)
			time.Sleep(20 * time.Millisecond)
		}
	}()
	if m.order.Crashes {
		context.AfterFunc(ctx, env.FaultsOf(c).Crash)
	}
	if err := w.Run(ctx); err != nil && !m.order.Crashes {
		m.Error(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
