package bench

import (
	"context"
	"fmt"
	"os"
	"slices"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/gcloudemulator"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// Which Bigtable a benchmark runs on.
const (
	EmbeddedEmulator = "embedded" // the emulator in this process
	GcloudEmulator   = "gcloud"   // that of gcloud's SDK, in a process of its own
)

// ground is what a benchmark stands on: a Bigtable emulator, empty but for the schema, and an oracle in this process.
type ground struct {
	emulator string                // which one, for people
	address  string                // of the emulator, host:port, for other processes
	oracle   tso.Oracle            // a *tso.Server with its record in memory
	options  []option.ClientOption // each client made with them has a connection of its own
	closers  []func() error
}

// startGround starts the emulator of that name and creates the schema in it.
func startGround(ctx context.Context, name string, schema *percolator.Schema) (_ *ground, err error) {
	g := &ground{}
	defer func() {
		if err != nil {
			_ = g.close()
		}
	}()
	if err := g.startEmulator(name); err != nil {
		return nil, err
	}
	oracle, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // until the clients are closed
	ended := make(chan error, 1)
	go func() { ended <- oracle.Run(running) }()
	g.oracle = oracle
	g.closers = append(g.closers, func() error { stop(); return <-ended })
	if err := percolator.CreateSchema(ctx, benchInstance, benchInstance, schema, g.options...); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *ground) startEmulator(name string) error {
	switch name {
	case EmbeddedEmulator:
		bt, err := emulator.Start()
		if err != nil {
			return err
		}
		g.emulator, g.address, g.options = "the emulator in the same process", bt.Addr(), bt.ClientOptions()
		g.closers = append(g.closers, bt.Close)
	case GcloudEmulator:
		path, err := gcloudemulator.Find(os.Getenv)
		if err != nil {
			return err
		}
		e, err := gcloudemulator.Start(path)
		if err != nil {
			return err
		}
		g.emulator, g.address, g.options = "gcloud's emulator in a process of its own", e.Addr, emulator.Connect(e.Addr)
		g.closers = append(g.closers, func() error { e.Stop(); return nil })
	default:
		return fmt.Errorf("emulator %q is neither %q nor %q", name, EmbeddedEmulator, GcloudEmulator)
	}
	return nil
}

// client opens a client of ours on a connection of its own, closed with the ground. cfg needs neither instance nor oracle.
func (g *ground) client(ctx context.Context, cfg percolator.Config, opts ...option.ClientOption) (*percolator.Client, error) {
	cfg.Project, cfg.Instance = benchInstance, benchInstance
	if cfg.Oracle == nil {
		cfg.Oracle = g.oracle
	}
	c, err := percolator.NewClient(ctx, cfg, append(slices.Clone(g.options), opts...)...)
	if err == nil {
		g.closers = append(g.closers, c.Close)
	}
	return c, err
}

// raw opens a client of Google's, set up as the ones inside of ours are, on a connection of its own.
func (g *ground) raw(ctx context.Context, opts ...option.ClientOption) (*bigtable.Client, error) {
	bt, err := bigtable.NewClientWithConfig(ctx, benchInstance, benchInstance, bigtable.ClientConfig{
		MetricsProvider:     bigtable.NoopMetricsProvider{},
		DisableDirectAccess: true,
		DisableSession:      true,
	}, append(slices.Clone(g.options), opts...)...)
	if err == nil {
		g.closers = append(g.closers, bt.Close)
	}
	return bt, err
}

// close ends everything, last opened first.
func (g *ground) close() (err error) {
	for _, f := range slices.Backward(g.closers) {
		err = firstOf(err, f())
	}
	g.closers = nil
	return err
}
