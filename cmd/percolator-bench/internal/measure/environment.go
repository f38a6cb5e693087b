package measure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/bigtable"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/internal/testing/emulators"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// instance is the name of project and instance.
const instance = "bench"

// gracePeriod bounds what is waited for after the last operation of a measurement.
const gracePeriod = time.Minute

// environment is what a benchmark stands on: a Bigtable emulator, empty but for a schema, an
// oracle, and everything that is opened on them. It keeps its first error; from then on nothing
// more is opened, and callers that open get nil. orClose returns the error.
type environment struct {
	emulator string                // which one, for people
	at       addresses             // for other processes
	oracle   tso.Oracle            // a *tso.Server with its record in memory, or a *tso.Client
	options  []option.ClientOption // each client made with them has a connection of its own
	closers  []func() error
	err      error
}

// addresses is where an environment listens.
type addresses struct {
	Bigtable, Oracle string
	Empty            string // serves empty calls
}

// newEnvironment starts the emulator of that name and creates the schema in it; there is no oracle.
func newEnvironment(ctx context.Context, name string, schema *percolator.Schema) *environment {
	e := new(environment)
	if e.startEmulator(name); e.err == nil {
		e.err = e.createSchema(ctx, schema)
	}
	return e
}

// startEnvironment starts an emulator and an oracle in this process.
func startEnvironment(ctx context.Context, emulator string, schema *percolator.Schema) *environment {
	e := newEnvironment(ctx, emulator, schema)
	e.runOracle(ctx, tso.ServerConfig{})
	return e
}

// runOracle makes an oracle in this process that of the environment.
func (e *environment) runOracle(ctx context.Context, cfg tso.ServerConfig) {
	if oracle := e.newOracle(tso.NewMemoryStore(), cfg); oracle != nil {
		e.oracle = oracle
		e.background(ctx, oracle.Run)
	}
}

// journal tells whether an instance has one: on or off.
type journal string

func (j journal) off() bool { return j == "off" }

// named is the name of what was measured. That of an instance with a journal is as it is.
func (j journal) named(what string) string {
	if j.off() {
		what += ", journal off"
	}
	return what
}

// chart names a chart of what was measured.
func (j journal) chart(c report.Chart) report.Chart {
	c.Name, c.Title = strings.ReplaceAll(j.named(c.Name), ", journal ", "-"), j.named(c.Title)
	return c
}

// Which Bigtable a benchmark runs on.
const (
	embeddedEmulator = "embedded" // the emulator in this process
	gcloudEmulator   = "gcloud"   // that of gcloud's SDK, in a process of its own
)

// startEmulator starts the emulator of that name.
func (e *environment) startEmulator(name string) {
	switch name {
	case embeddedEmulator:
		e.embed()
	case gcloudEmulator:
		path := opened(e, func() (string, error) { return emulators.Find(os.Getenv) })
		if bt := opened(e, func() (*emulators.Emulator, error) { return emulators.Start(path) }); bt != nil {
			e.emulator, e.at.Bigtable = "gcloud's emulator in a process of its own", bt.Addr
			e.closers = append(e.closers, func() error { bt.Stop(); return nil })
			e.options = emulator.Connect(bt.Addr)
		}
	default:
		e.err = fmt.Errorf("emulator %q is neither %q nor %q", name, embeddedEmulator, gcloudEmulator)
	}
}

// embed starts the emulator in this process.
func (e *environment) embed(opts ...emulator.Option) *emulator.Server {
	bt := opened(e, func() (*emulator.Server, error) { return emulator.Start(opts...) })
	if bt != nil {
		e.emulator, e.at.Bigtable, e.closers = "the emulator in the same process", bt.Addr(), append(e.closers, bt.Close)
		e.options = emulator.Connect(bt.Addr())
	}
	return bt
}

// createSchema creates what is not there yet.
func (e *environment) createSchema(ctx context.Context, s *percolator.Schema) error {
	return percolator.CreateSchema(ctx, instance, instance, s, e.options...)
}

// connectEnvironment connects to the environment of another process.
func connectEnvironment(ctx context.Context, at addresses) *environment {
	e := &environment{at: at, options: emulator.Connect(at.Bigtable)}
	e.dial(ctx, at.Oracle)
	return e
}

// opened takes what open returns, unless there has been an error.
func opened[T any](e *environment, open func() (T, error)) (t T) {
	if e.err == nil {
		t, e.err = open()
	}
	return t
}

// orClose returns the first error, and closes the environment if there is one.
func (e *environment) orClose() error {
	if e.err != nil {
		return errors.Join(e.err, e.close())
	}
	return nil
}

// close ends everything, last opened first.
func (e *environment) close() (err error) {
	for _, f := range slices.Backward(e.closers) {
		err = errors.Join(err, f())
	}
	e.closers = nil
	return err
}

// closeInto closes, and adds what goes wrong to err.
func (e *environment) closeInto(err *error) { *err = errors.Join(*err, e.close()) }

// background runs f until stop is called, or the environment is closed.
func (e *environment) background(ctx context.Context, f func(context.Context) error) (stop func() error) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- f(running) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	e.closers = append(e.closers, stop)
	return stop
}

func (e *environment) newOracle(store tso.Store, cfg tso.ServerConfig) *tso.Server {
	return opened(e, func() (*tso.Server, error) { return tso.NewServer(store, cfg) })
}

// listen listens on loopback.
func (e *environment) listen() net.Listener {
	return opened(e, func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") })
}

// serveOracle lets an oracle listen on loopback.
func (e *environment) serveOracle(ctx context.Context, store tso.Store, cfg tso.ServerConfig) *tso.Server {
	server := e.newOracle(store, cfg)
	if l := e.listen(); l != nil {
		e.at.Oracle = l.Addr().String()
		e.background(ctx, func(ctx context.Context) error { return server.Serve(ctx, l) })
	}
	return server
}

// dial makes a client of oracles that of the environment.
func (e *environment) dial(ctx context.Context, targets string) *tso.Client {
	c := opened(e, func() (*tso.Client, error) { return tso.Dial(ctx, targets) })
	if c != nil {
		e.oracle, e.closers = c, append(e.closers, c.Close)
	}
	return c
}

// part starts a part of the benchmark in a process, which ends with the environment, and asks for a
// first answer unless that is nil.
func (e *environment) part(ctx context.Context, name string, setting, answer any, env ...string) *process {
	p := opened(e, func() (*process, error) { return startPart(ctx, name, setting, env...) })
	if p != nil {
		if e.closers = append(e.closers, p.stop); answer != nil {
			e.err = p.ask(struct{}{}, answer)
		}
	}
	return p
}

// client opens a client of ours on a connection of its own. cfg needs neither instance nor oracle.
func (e *environment) client(ctx context.Context, cfg percolator.Config, opts ...option.ClientOption) *percolator.Client {
	cfg.Project, cfg.Instance = instance, instance
	if cfg.Oracle == nil {
		cfg.Oracle = e.oracle
	}
	c := opened(e, func() (*percolator.Client, error) {
		return percolator.NewClient(ctx, cfg, slices.Concat(e.options, opts)...)
	})
	if c != nil {
		e.closers = append(e.closers, c.Close)
	}
	return c
}

// briefly opens a client like others, and closes it when use has ended.
func (e *environment) briefly(ctx context.Context, use func(*percolator.Client) error) error {
	open := len(e.closers)
	c := e.client(ctx, percolator.Config{})
	if e.err != nil {
		return e.err
	}
	e.closers = e.closers[:open]
	return errors.Join(use(c), c.Close())
}

// google opens a client of Google's, set up as the ones inside of ours are, on a connection of its
// own.
func (e *environment) google(ctx context.Context, opts ...option.ClientOption) *bigtable.Client {
	cfg := bigtable.ClientConfig{MetricsProvider: bigtable.NoopMetricsProvider{}, DisableDirectAccess: true, DisableSession: true}
	bt := opened(e, func() (*bigtable.Client, error) {
		return bigtable.NewClientWithConfig(ctx, instance, instance, cfg, slices.Concat(e.options, opts)...)
	})
	if bt != nil {
		e.closers = append(e.closers, bt.Close)
	}
	return bt
}

// raw opens such a client, and returns what opens tables with it.
func (e *environment) raw(ctx context.Context, opts ...option.ClientOption) func(table string) *bigtable.Table {
	if bt := e.google(ctx, opts...); bt != nil {
		return bt.Open
	}
	return func(string) *bigtable.Table { return nil }
}

// createRaw creates a table that is not the protocol's.
func (e *environment) createRaw(ctx context.Context, table, family string, policy bigtable.GCPolicy) {
	admin := opened(e, func() (*bigtable.AdminClient, error) {
		return bigtable.NewAdminClient(ctx, instance, instance, e.options...)
	})
	if admin != nil {
		families := map[string]bigtable.Family{family: {GCPolicy: policy}}
		e.err = admin.CreateTableFromConf(ctx, &bigtable.TableConf{TableID: table, ColumnFamilies: families})
		_ = admin.Close()
	}
}

// work runs a worker until stop is called, or the environment is closed. It collects nothing: an
// emulator that lives for minutes has nothing to collect.
func (e *environment) work(ctx context.Context, c *percolator.Client, r *observers.Registry, cfg observers.Config,
) (w *observers.Worker, stop func() error) {
	cfg.DisableCollection = true
	if w = opened(e, func() (*observers.Worker, error) { return observers.NewWorker(c, r, cfg) }); w != nil {
		stop = e.background(ctx, w.Run)
	}
	return w, stop
}

const bulkRows = 1000 // of a raw request that writes many

// applyBulk writes many rows, in large requests of which some are under way at once.
func applyBulk(ctx context.Context, t *bigtable.Table, rows []string, mutations []*bigtable.Mutation) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for from := 0; from < len(rows); from += bulkRows {
		to := min(from+bulkRows, len(rows))
		group.Go(func() error {
			failed, err := t.ApplyBulk(ctx, rows[from:to], mutations[from:to])
			return errors.Join(append(failed, err)...)
		})
	}
	return group.Wait()
}

// setCell is a mutation that writes one cell.
func setCell(family, column string, at bigtable.Timestamp, value []byte) *bigtable.Mutation {
	m := bigtable.NewMutation()
	m.Set(family, column, at, value)
	return m
}

// rowName is the i-th row, in the order of keys.
func rowName(i int) string { return fmt.Sprintf("row-%09d", i) }
