// Package simulated is a store in memory with exactly the operations of store.Backend: tables on
// tablets and disks, the strict rules of Cloud Bigtable, and faults that a seed decides. Within a
// bubble of testing/synctest its time is virtual.
package simulated

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
)

// Config is what a cluster is like. The zero value serves at once, apart from the latency, and
// makes no mistakes.
type Config struct {
	Seed    uint64
	Latency Latency
	Rates   Rates
	Tablets Tablets
	Disks   Disks
	Trace   func(Event) // is told of all that happens; may be nil
	// Sent, if set, is told of the changes of a row in each attempt of a request that is about to
	// be sent, whether it arrives or not, but not after until; bulk: without a condition. It must
	// not keep them.
	Sent func(process string, bulk bool, until time.Time, table, row string, changes []store.Change)
	// Applied, if set, is told of all changes of a row that a process made together. It must not
	// keep them.
	Applied func(process, table, row string, changes []store.Change)
	// Requests, if set, counts the requests that reach the store, and others that share the
	// counter.
	Requests *atomic.Int64
}

// Cluster is the store that all processes share. Its methods may be called concurrently.
type Cluster struct {
	seed      hash
	latencies [latencySteps]float64 // quantiles, in ns
	config    Config
	faults    faults

	notifications notifications

	mu       sync.RWMutex
	tables   map[string]*table
	connects map[string]uint64 // by process: a new connection has faults of its own
	landed   *atomic.Int64     // requests
	digest   atomic.Uint64     // of what was sent, and when
	timers   sync.Pool         // stopped ones
}

// NewCluster makes a store without tables.
func NewCluster(cfg Config) *Cluster {
	c := &Cluster{seed: hash(cfg.Seed).with(seedMark), latencies: cfg.Latency.quantiles(), config: cfg,
		tables: map[string]*table{}, connects: map[string]uint64{}, landed: cmp.Or(cfg.Requests, new(atomic.Int64))}
	c.SetRates(cfg.Rates)
	return c
}

// CreateTable adds a table, or families to one.
func (c *Cluster) CreateTable(name string, families []string) error {
	if err := checkSchema(name, families); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.tables[name]; t != nil {
		return t.addFamilies(families)
	}
	if len(c.tables) >= tablesMost {
		return status.Errorf(codes.FailedPrecondition, "the instance has %d tables and no room for another", len(c.tables))
	}
	c.tables[name] = newTable(c, name, families)
	return nil
}

// DeleteTable deletes a table with everything in it, if there is one of that name.
func (c *Cluster) DeleteTable(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tables, name)
}

// Families are those of a table; nil: there is none of that name.
func (c *Cluster) Families(name string) map[string]bool {
	t, err := c.table(name)
	if err != nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]bool{}
	for _, f := range t.families {
		out[f] = true
	}
	return out
}

// Connect is the connection of a process to the store. A process that connects again does so as
// another one.
func (c *Cluster) Connect(process string) *Connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.connects[process]
	c.connects[process]++
	return &Connection{process: process, cluster: c, hash: c.seed.with(xxhash.Sum64String(process)).with(n)}
}

// Digest stands for all requests and the times at which they were sent: it tells whether a run was
// repeated.
func (c *Cluster) Digest() uint64 { return c.digest.Load() }

// Visit shows the rows of a table, one at a time, as they are at present. visit must not call the
// cluster, nor keep what it gets.
func (c *Cluster) Visit(name string, visit func(layout.Row) bool) error {
	t, err := c.table(name)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows.Ascend(func(r *row) bool { return visit(layout.Row{Key: r.key, Items: r.items}) })
	return nil
}

func (c *Cluster) table(name string) (*table, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if t := c.tables[name]; t != nil {
		return t, nil
	}
	return nil, notFound(fmt.Sprintf("table %q not found", name))
}
