package measure

import (
	"context"
	"fmt"
	"iter"
	"os"
	"time"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/gcloudemulator"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/emulator"
)

// Everything that benchmarks use of what is there for operators.

// Which Bigtable a benchmark runs on.
const (
	embeddedEmulator = "embedded" // the emulator in this process
	gcloudEmulator   = "gcloud"   // that of gcloud's SDK, in a process of its own
)

// startEmulator starts the emulator of that name and returns what it is for people, and its
// address.
func startEmulator(name string) (text, address string, stop func() error, err error) {
	if name == embeddedEmulator {
		bt, err := emulator.Start()
		if err != nil {
			return "", "", nil, err
		}
		return "the emulator in the same process", bt.Addr(), bt.Close, nil
	}
	if name != gcloudEmulator {
		return "", "", nil, fmt.Errorf("emulator %q is neither %q nor %q", name, embeddedEmulator, gcloudEmulator)
	}
	path, err := gcloudemulator.Find(os.Getenv)
	if err != nil {
		return "", "", nil, err
	}
	e, err := gcloudemulator.Start(path)
	if err != nil {
		return "", "", nil, err
	}
	return "gcloud's emulator in a process of its own", e.Addr, func() error { e.Stop(); return nil }, nil
}

// connectTo returns the options of clients of an emulator. Each client has a connection of its own.
func connectTo(address string) []option.ClientOption { return emulator.Connect(address) }

// createSchema creates what is not there yet.
func createSchema(ctx context.Context, s *percolator.Schema, opts ...option.ClientOption) error {
	return percolator.CreateSchema(ctx, instance, instance, s, opts...)
}

// newWorker makes a worker that collects nothing: an emulator that lives for minutes has nothing to
// collect.
func newWorker(c *percolator.Client, r *observers.Registry, cfg observers.Config) (*observers.Worker, error) {
	cfg.DisableCollection = true
	return observers.NewWorker(c, r, cfg)
}

// waitIdle waits until every notification of the registry's observers has been answered, by
// whichever worker.
func waitIdle(ctx context.Context, c *percolator.Client, r *observers.Registry) error {
	w, err := newWorker(c, r, observers.Config{})
	if err != nil {
		return err
	}
	return w.WaitIdle(ctx)
}

// anyParked returns an error if an observer has given up on a cell.
func anyParked(ctx context.Context, c *percolator.Client) error {
	for p, err := range observers.ListParked(ctx, c) {
		if err != nil {
			return err
		}
		return fmt.Errorf("observer %s has given up on %s: %s", p.Observer, p.Cell, p.Reason)
	}
	return nil
}

// pending is a worker's search for notifications and locks through a whole table.
func pending(ctx context.Context, c *percolator.Client, table string) iter.Seq2[admin.Pending, error] {
	return admin.New(c).ScanPending(ctx, table, percolator.All())
}

// pendingPage is what a scanner reads at once, from a row on.
func pendingPage(ctx context.Context, c *percolator.Client, table, from string) error {
	_, _, err := admin.New(c).ReadPending(ctx, table, percolator.Between(from, ""), admin.MaxPendingRows)
	return err
}

// What a collection reports, and the phases at which it does.
type collection = admin.Collection

const (
	collectionResolves = admin.CollectionResolve
	collectionErases   = admin.CollectionErase
)

// collect runs one cycle of collection, as fast as it can.
func collect(ctx context.Context, c *percolator.Client, progress func(collection)) (collection, error) {
	collector, err := admin.New(c).NewCollector(admin.CollectorConfig{Lease: time.Hour, RowsPerSecond: 1_000_000_000, Progress: progress})
	if err != nil {
		return collection{}, err
	}
	return collector.Collect(ctx)
}
