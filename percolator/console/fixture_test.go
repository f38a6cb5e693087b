package console

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// testLimit bounds everything that a test waits for.
const testLimit = 2 * time.Minute

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until ok holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx := testContext(t)
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: it did not come to that", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

var testSchema = &percolator.Schema{Tables: []percolator.Table{
	{Name: "documents", Observed: []string{"contents"}, Weak: []string{"recount"}},
	{Name: "words"},
}}

// cluster is an instance with an oracle that listens.
type cluster struct {
	t         testing.TB
	env       *percolatortest.Env
	client    *percolator.Client
	addresses []string
	oracle    *tso.Client
	queue     *exportqueue.Queue // nil: none
}

func newCluster(t testing.TB, servers int) *cluster {
	t.Helper()
	return newClusterOf(t, servers, testSchema, nil)
}

// newQueueCluster is newCluster with an export queue, mails, whose receiver refuses what begins
// with "bad".
func newQueueCluster(t testing.TB, servers int) *cluster {
	t.Helper()
	queue, err := exportqueue.New(exportqueue.Config{Table: "mails", Name: "mail", Partitions: 1, DeadLetters: "dead_letters"})
	if err != nil {
		t.Fatal(err)
	}
	letters, _ := queue.DeadLetterTable()
	return newClusterOf(t, servers, &percolator.Schema{Tables: slices.Concat(testSchema.Tables, []percolator.Table{queue.Table(), letters})}, queue)
}

func newClusterOf(t testing.TB, servers int, schema *percolator.Schema, queue *exportqueue.Queue) *cluster {
	t.Helper()
	c := &cluster{t: t, queue: queue}
	store := tso.NewMemoryStore()
	for range servers {
		c.addresses = append(c.addresses, serveOracle(t, store))
	}
	var err error
	if c.oracle, err = tso.Dial(testContext(t), c.addresses[0]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.oracle.Close() })
	c.env = percolatortest.New(t, schema, c.ownOracle())
	c.client = c.env.Client
	return c
}

// ownOracle has clients use the oracle that listens.
func (c *cluster) ownOracle() interface {
	percolatortest.Option
	percolatortest.ClientOption
} {
	return percolatortest.Configure(func(cfg *percolator.Config) { cfg.Oracle = c.oracle }).(interface {
		percolatortest.Option
		percolatortest.ClientOption
	})
}

func serveOracle(t testing.TB, store tso.Store) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := tso.NewServer(store, tso.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() { stop(); <-ended })
	return l.Addr().String()
}

// handler makes a console of the cluster.
func (c *cluster) handler(change ...func(*Config)) *Handler {
	c.t.Helper()
	cfg := Config{Title: "demo/search", OracleAddresses: c.addresses, PollInterval: 200 * time.Millisecond}
	for _, f := range change {
		f(&cfg)
	}
	h, err := NewHandler(c.client, cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = h.Close() })
	return h
}

func document(row, column string) percolator.Cell {
	return percolator.Cell{Table: "documents", Row: row, Column: column}
}

// set commits values and waits for their phase two.
func (c *cluster) set(value string, cells ...percolator.Cell) {
	c.t.Helper()
	ctx := testContext(c.t)
	_, err := c.client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		for _, cell := range cells {
			if err := tx.Set(cell, []byte(value)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = c.client.Flush(ctx)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// strand leaves the locks of a client that died before its commit point.
func (c *cluster) strand(ttl time.Duration, cells ...percolator.Cell) {
	c.t.Helper()
	living := percolatortest.Configure(func(cfg *percolator.Config) { cfg.LockTTL = ttl })
	dying := c.env.NewClient(c.ownOracle(), living, percolatortest.Name("dying"), percolatortest.Handler(func(r percolatortest.Request) percolatortest.Action {
		if r.Sets("write") {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	}))
	tx, err := dying.Begin(testContext(c.t))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, cell := range cells {
		if err := tx.Set(cell, []byte("never committed")); err != nil {
			c.t.Fatal(err)
		}
	}
	if _, err := tx.Commit(testContext(c.t)); err == nil {
		c.t.Fatal("the client did not die")
	}
}

// observer is one that fails for rows that it is told to.
type observer struct {
	mu   sync.Mutex
	fail map[string]string // row → reason
}

func (o *observer) setFail(row, reason string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if reason == "" {
		delete(o.fail, row)
		return
	}
	if o.fail == nil {
		o.fail = map[string]string{}
	}
	o.fail[row] = reason
}

func (o *observer) run(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
	o.mu.Lock()
	reason := o.fail[ch.Cell.Row]
	o.mu.Unlock()
	if reason != "" {
		return errors.New(reason)
	}
	return tx.Set(document(ch.Cell.Row, "words"), fmt.Appendf(nil, "%d", len(ch.Value)))
}

// deliver refuses what begins with "bad", and says how it goes on.
func deliver(_ context.Context, batch []exportqueue.Entry) error {
	var refused []error
	for _, e := range batch {
		if reason, bad := strings.CutPrefix(string(e.Value), "bad "); bad {
			refused = append(refused, exportqueue.Reject(errors.New(reason), e))
		}
	}
	return errors.Join(refused...)
}

// export adds entries, keys and values, to the queue.
func (c *cluster) export(entries ...string) {
	c.t.Helper()
	if _, err := c.client.Update(testContext(c.t), func(_ context.Context, tx *percolator.Txn) (err error) {
		for i := 0; i < len(entries) && err == nil; i += 2 {
			err = c.queue.Add(tx, entries[i], []byte(entries[i+1]))
		}
		return err
	}); err != nil {
		c.t.Fatal(err)
	}
}

// work runs a worker of a client until the test ends.
func (c *cluster) work(client *percolator.Client, o *observer) { c.t.Cleanup(c.workUntil(client, o)) }

// workUntil runs a worker until stop is called.
func (c *cluster) workUntil(client *percolator.Client, o *observer) (stop func()) {
	c.t.Helper()
	r := observers.NewRegistry()
	r.Observe("index", "documents", "contents", o.run)
	r.Observe("recount", "documents", "recount", func(context.Context, *percolator.Txn, observers.Change) error { return nil })
	if c.queue != nil {
		c.queue.Observe(r, client, deliver)
	}
	w, err := observers.NewWorker(client, r, observers.Config{
		MaxAttempts: 3, MinBackoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond, ScanInterval: 50 * time.Millisecond, Partition: true, ReportInterval: time.Second,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return sync.OnceFunc(func() { cancel(); <-ended })
}

// park has the observer fail for a row until it is parked.
func (c *cluster) park(o *observer, row, reason string) {
	c.t.Helper()
	o.setFail(row, reason)
	c.set("a document about "+row, document(row, "contents"))
	eventually(c.t, "parked", func() bool {
		for p, err := range observers.ListParked(testContext(c.t), c.client, "documents") {
			if err == nil && p.Cell.Row == row {
				return true
			}
		}
		return false
	})
}
