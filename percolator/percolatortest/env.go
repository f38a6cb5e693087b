package percolatortest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/google/uuid"
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// setupLimit bounds each step of starting and stopping an environment.
const setupLimit = 30 * time.Second

// Env is a store, an oracle and clients for one test. Its methods are safe for concurrent use;
// those that say that they end the test must be called from the test's goroutine.
type Env struct {
	Client *percolator.Client // the first client
	Oracle tso.Oracle         // in this process, without faults
	Clock  *Clock             // of the oracle

	// Project and Instance name the Bigtable instance, which is this environment's alone.
	Project, Instance string

	t        testing.TB
	address  string // of the store; "": in memory
	emulator *emulator.Server
	options  func() []option.ClientOption
	calls    []option.ClientOption // after all others: what carries requests out in this process
	listener string                // of the oracle, if it has one

	mu      sync.Mutex
	clients int
	faults  map[*percolator.Client]*Faults
	loops   *engine.Loops

	store     func() *bigtable.Client
	inspector func() *percolator.Client
}

// New starts an environment with the tables of s and one client. It ends the test if that fails,
// and stops everything when the test ends.
func New(t testing.TB, s *percolator.Schema, opts ...Option) *Env {
	t.Helper()
	var set envSettings
	for _, o := range opts {
		o.applyEnv(&set)
	}
	e := newEnv(t, "percolatortest", "test-"+uuid.NewString()[:13])
	e.Clock = new(Clock)
	if set.address == "" {
		e.startEmulator(set)
	} else {
		e.connect(set.address)
		e.cleanUp(e.deleteTables)
	}
	e.startOracle(set.listen)
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	if err := percolator.CreateSchema(ctx, e.Project, e.Instance, s, e.Options()...); err != nil {
		t.Fatalf("percolatortest: %v", err)
	}
	e.Client = e.NewClient(set.client...)
	return e
}

func newEnv(t testing.TB, project, instance string) *Env {
	e := &Env{Project: project, Instance: instance, t: t, faults: make(map[*percolator.Client]*Faults)}
	e.loops = e.newLoops()
	e.store = sync.OnceValue(e.openStore)
	e.inspector = sync.OnceValue(func() *percolator.Client { return e.newClient(e.Oracle, e.Options()) })
	return e
}

// cleanUp has f called when the test ends, and what it refers to collected then: a parallel test,
// with its functions, stays in memory until all others have ended.
func (e *Env) cleanUp(f func()) {
	e.t.Cleanup(func() {
		f()
		f = nil
	})
}

// Options returns the options with which a Bigtable client, or percolator.NewClient, connects to
// the store: without faults, each client with a connection of its own.
func (e *Env) Options() []option.ClientOption { return e.options() }

// Emulator returns the emulator that this environment has started, whose connections and storage a
// test can have fail; nil if the store is another's ([Address], [Join]).
func (e *Env) Emulator() *emulator.Server { return e.emulator }

// NewClient makes one more client of the same store and oracle, with its own connection and its own
// faults, which does not report. It ends the test if that fails; the client is closed when the test
// ends, if not before.
func (e *Env) NewClient(opts ...ClientOption) *percolator.Client {
	e.t.Helper()
	e.mu.Lock()
	e.clients++
	set := clientSettings{name: fmt.Sprintf("client-%d", e.clients)}
	e.mu.Unlock()
	for _, o := range opts {
		o.applyClient(&set)
	}
	f := newFaults(set.name)
	f.Handle(set.handler)
	c := e.newClient(clientOracle{faults: f, oracle: e.Oracle}, append(e.Options(), f.options()...), set.configure...)
	e.cleanUp(func() { // before the client is closed
		f.end()
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.faults, c)
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults[c] = f
	return c
}

func (e *Env) newClient(oracle tso.Oracle, opts []option.ClientOption, configure ...func(*percolator.Config)) *percolator.Client {
	e.t.Helper()
	// Reports would be requests by the clock, which disturb tests.
	cfg := percolator.Config{Project: e.Project, Instance: e.Instance, Oracle: oracle, DisableReports: true}
	for _, f := range configure {
		f(&cfg)
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	c, err := percolator.NewClient(ctx, cfg, append(opts, e.calls...)...)
	if err != nil {
		e.t.Fatalf("percolatortest: %v", err)
	}
	c.Engine().Loops = e.loops
	e.cleanUp(func() {
		if err := c.Close(); err != nil {
			e.t.Logf("percolatortest: closing a client: %v", err)
		}
	})
	return c
}

// FaultsOf returns the faults of a client that this environment has made. It ends the test when c
// is another's.
func (e *Env) FaultsOf(c *percolator.Client) *Faults {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.faults[c]
	if f == nil {
		e.t.Fatalf("percolatortest: FaultsOf: not a client of this environment")
	}
	return f
}

// Store returns a plain Bigtable client of the store, without faults, to look at cells and to plant
// some. It is closed when the test ends.
func (e *Env) Store() *bigtable.Client { return e.store() }

func (e *Env) openStore() *bigtable.Client {
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	c, err := bigtable.NewClientWithConfig(ctx, e.Project, e.Instance, bigtable.ClientConfig{
		MetricsProvider:     bigtable.NoopMetricsProvider{},
		DisableSession:      true,
		DisableDirectAccess: true,
	}, append(e.Options(), e.calls...)...)
	if err != nil {
		e.t.Fatalf("percolatortest: %v", err)
	}
	e.cleanUp(func() { _ = c.Close() })
	return c
}

// connect is to a store with an address.
func (e *Env) connect(address string) {
	e.address, e.options = address, func() []option.ClientOption { return emulator.Connect(address) }
}

func (e *Env) startEmulator(set envSettings) {
	if !set.listen {
		set.emulator = append(set.emulator, emulator.InMemory())
	}
	s, err := emulator.Start(set.emulator...)
	if err != nil {
		e.t.Fatalf("percolatortest: %v", err)
	}
	e.cleanUp(func() { _ = s.Close() })
	e.emulator, e.options = s, s.ClientOptions
	switch {
	case set.listen: // what other processes see is what this one does
		e.address = s.Addr()
	case !set.connect:
		e.calls = s.InProcess()
	}
}

func (e *Env) startOracle(listen bool) {
	s, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{Now: e.Clock.Now})
	if err != nil {
		e.t.Fatalf("percolatortest: %v", err)
	}
	run := e.runOracle(s, listen)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	e.cleanUp(func() {
		stop()
		if err := <-done; err != nil {
			e.t.Errorf("percolatortest: the oracle: %v", err)
		}
	})
	e.Oracle = s
}

func (e *Env) deleteTables() {
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	admin, err := bigtable.NewAdminClient(ctx, e.Project, e.Instance, e.Options()...)
	if err != nil {
		e.t.Errorf("percolatortest: %v", err)
		return
	}
	defer func() { _ = admin.Close() }()
	tables, err := admin.Tables(ctx)
	for _, name := range tables {
		if err == nil {
			err = admin.DeleteTable(ctx, name)
		}
	}
	if err != nil {
		e.t.Errorf("percolatortest: deleting the tables of %s: %v", e.Instance, err)
	}
}
