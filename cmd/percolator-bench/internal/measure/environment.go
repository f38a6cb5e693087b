package measure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/bigtable"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// instance is the name of project and instance.
const instance = "bench"

// gracePeriod bounds what is waited for after the last operation of a measurement.
const gracePeriod = time.Minute

// environment is what a benchmark stands on: a Bigtable emulator, empty but for a schema, an
// oracle, and everything that was opened on them.
type environment struct {
	emulator string                // which one, for people
	at       addresses             // for other processes
	oracle   tso.Oracle            // a *tso.Server with its record in memory, or a *tso.Client
	options  []option.ClientOption // each client made with them has a connection of its own
	closers  []func() error
}

// addresses is where an environment listens.
type addresses struct {
	Bigtable string `json:"bigtable,omitempty"`
	Oracle   string `json:"oracle,omitempty"`
	Empty    string `json:"empty,omitempty"` // serves empty calls
}

// newEnvironment starts the emulator of that name and creates the schema in it; there is no oracle.
func newEnvironment(ctx context.Context, emulator string, schema *percolator.Schema) (*environment, error) {
	e := &environment{}
	var stop func() error
	var err error
	if e.emulator, e.at.Bigtable, stop, err = startEmulator(emulator); err != nil {
		return nil, err
	}
	e.closers, e.options = append(e.closers, stop), connectTo(e.at.Bigtable)
	if schema != nil {
		err = createSchema(ctx, schema, e.options...)
	}
	return e.orClose(err)
}

// startEnvironment starts an emulator and an oracle in this process.
func startEnvironment(ctx context.Context, emulator string, schema *percolator.Schema) (*environment, error) {
	e, err := newEnvironment(ctx, emulator, schema)
	if err != nil {
		return nil, err
	}
	oracle, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
	if err == nil {
		e.oracle = oracle
		e.background(ctx, oracle.Run)
	}
	return e.orClose(err)
}

// connectEnvironment connects to the environment of another process.
func connectEnvironment(ctx context.Context, at addresses) (*environment, error) {
	e := &environment{at: at, options: connectTo(at.Bigtable)}
	_, err := e.dial(ctx, at.Oracle)
	return e.orClose(err)
}

// orClose returns the environment, or closes it if there is an error.
func (e *environment) orClose(err error) (*environment, error) {
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

// close ends everything, last opened first.
func (e *environment) close() (err error) {
	for _, f := range slices.Backward(e.closers) {
		err = errors.Join(err, f())
	}
	e.closers = nil
	return err
}

// background runs f until stop is called, or the environment is closed.
func (e *environment) background(ctx context.Context, f func(context.Context) error) (stop func() error) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- f(running) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	e.closers = append(e.closers, stop)
	return stop
}

// serve lets an oracle listen on loopback.
func (e *environment) serve(ctx context.Context, server *tso.Server) (address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	e.background(ctx, func(ctx context.Context) error { return server.Serve(ctx, l) })
	return l.Addr().String(), nil
}

// dial makes a client of oracles that of the environment.
func (e *environment) dial(ctx context.Context, targets string) (*tso.Client, error) {
	c, err := tso.Dial(ctx, targets)
	if err == nil {
		e.oracle, e.closers = c, append(e.closers, c.Close)
	}
	return c, err
}

// client opens a client of ours on a connection of its own. cfg needs neither instance nor oracle.
func (e *environment) client(ctx context.Context, cfg percolator.Config, opts ...option.ClientOption) (*percolator.Client, error) {
	cfg.Project, cfg.Instance = instance, instance
	if cfg.Oracle == nil {
		cfg.Oracle = e.oracle
	}
	c, err := percolator.NewClient(ctx, cfg, slices.Concat(e.options, opts)...)
	if err == nil {
		e.closers = append(e.closers, c.Close)
	}
	return c, err
}

// raw opens a client of Google's, set up as the ones inside of ours are, on a connection of its
// own.
func (e *environment) raw(ctx context.Context, opts ...option.ClientOption) (*bigtable.Client, error) {
	bt, err := bigtable.NewClientWithConfig(ctx, instance, instance, bigtable.ClientConfig{
		MetricsProvider:     bigtable.NoopMetricsProvider{},
		DisableDirectAccess: true,
		DisableSession:      true,
	}, slices.Concat(e.options, opts)...)
	if err == nil {
		e.closers = append(e.closers, bt.Close)
	}
	return bt, err
}

// createRaw creates a table that is not the protocol's.
func (e *environment) createRaw(ctx context.Context, table, family string, policy bigtable.GCPolicy) error {
	admin, err := bigtable.NewAdminClient(ctx, instance, instance, e.options...)
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close() }()
	return admin.CreateTableFromConf(ctx, &bigtable.TableConf{TableID: table, ColumnFamilies: map[string]bigtable.Family{family: {GCPolicy: policy}}})
}

// work runs a worker until stop is called, or the environment is closed.
func (e *environment) work(
	ctx context.Context, c *percolator.Client, r *observers.Registry, cfg observers.Config,
) (w *observers.Worker, stop func() error, err error) {
	if w, err = newWorker(c, r, cfg); err != nil {
		return nil, nil, err
	}
	return w, e.background(ctx, w.Run), nil
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

// rowName is the i-th row, in the order of keys.
func rowName(i int) string { return fmt.Sprintf("row-%09d", i) }
