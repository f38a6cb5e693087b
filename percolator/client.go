package percolator

import (
	"context"
	"fmt"
	"hash/maphash"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/tso"
)

// closeTimeout bounds Close when the store is down, connectTimeout NewClient.
const (
	closeTimeout   = 10 * time.Second
	connectTimeout = 30 * time.Second
)

// Client runs transactions on one Bigtable instance. Use one for each process. All methods may be called concurrently.
type Client struct {
	cfg     Config
	store   *store
	count   *counters
	catalog atomic.Pointer[catalog]
	meta    *metaWatcher
	bulk    *bulkWriter
	batch   *readBatcher
	warm    *warmGoroutines
	own     ownCommits
	predict *predictor
	habits  readHabits
	trace   spans
	metrics metric.Registration

	oracle tso.Oracle
	dialed *tso.Client                 // the oracle, when NewClient dialed it
	ahead  startAhead                  // start timestamps for Blind
	fates  *lru.Cache[txnID, decision] // of transactions that are decided for good
	alive  *liveness
	newest newestStamp // for MaxStaleness

	recent recentWrites // for blind transactions

	listeners listeners
	hints     *hinter

	background context.Context // ends with Close
	stop       context.CancelFunc
	running    sync.WaitGroup
	closed     atomic.Bool
}

// NewClient connects to the instance and the oracle, reads the stored schema, and compares it with cfg.Schema. It fails
// with ErrSchemaMismatch if there is no schema or another one, and with an error that names the endpoint if the
// instance or the oracle does not answer before ctx ends, at most 30 s. opts are those of Google's own clients.
func NewClient(ctx context.Context, cfg Config, opts ...option.ClientOption) (*Client, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var where endpoint
	bt, err := newBigtable(ctx, cfg.Project, cfg.Instance, cfg.AppProfile, append([]option.ClientOption{where.option()}, opts...))
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, count: &counters{}, oracle: cfg.Oracle}
	if c.fates, err = lru.New[txnID, decision](fatesRemembered); err != nil {
		return nil, err
	}
	c.background, c.stop = context.WithCancel(context.Background())
	c.store = newStore(c.background, bt, c.count)
	if c.store.metrics, err = newInstruments(cfg.MeterProvider); err != nil {
		c.stop()
		bt.Close()
		return nil, fmt.Errorf("percolator: making metrics: %w", err)
	}
	c.meta = &metaWatcher{store: c.store, version: c.adopt}
	c.bulk = newBulkWriter(c.background, c.store)
	c.batch = newReadBatcher(c)
	c.warm = newWarmGoroutines(c.background)
	c.predict = newPredictor()
	c.habits.first, c.habits.probe = firstTrial, probeRows
	c.trace = newSpans(cfg.TracerProvider)
	c.recent.seed = maphash.MakeSeed()
	if err := c.connect(ctx, &where); err != nil {
		c.stop()
		bt.Close()
		if c.dialed != nil {
			c.dialed.Close()
		}
		return nil, err
	}
	c.running.Add(1)
	go func() {
		defer c.running.Done()
		c.meta.run(c.background)
	}()
	return c, nil
}

// connect dials the oracle, reads the schema and registers the metrics.
func (c *Client) connect(ctx context.Context, where *endpoint) error {
	m, err := c.meta.refresh(ctx)
	if err != nil {
		return fmt.Errorf("%w (endpoint: %s)", withContext(ctx, err), where)
	}
	if err := c.checkSchema(m); err != nil {
		return err
	}
	if c.oracle == nil {
		addr := os.Getenv("PERCOLATOR_TSO_ADDR")
		if addr == "" {
			return fmt.Errorf("percolator: %w: no oracle: set Config.Oracle or PERCOLATOR_TSO_ADDR=host:port of a running oracle", ErrInvalidArgument)
		}
		secure, err := tso.DialOptionsFromEnv(c.cfg.Logger)
		if err != nil {
			return fmt.Errorf("percolator: %w: oracle at %s: %w", ErrInvalidArgument, addr, err)
		}
		if c.dialed, err = tso.Dial(ctx, addr, secure...); err != nil {
			return fmt.Errorf("percolator: oracle at %s: %w", addr, withContext(ctx, err))
		}
		c.oracle = c.dialed
	}
	c.hints = newHinter(c.cfg, c.oracle, c.count)
	if c.alive, err = newLiveness(c.oracle); err != nil {
		return err
	}
	if c.metrics, err = c.registerMetrics(c.cfg.MeterProvider); err != nil {
		return fmt.Errorf("percolator: registering metrics: %w", err)
	}
	return nil
}

func (c *Client) checkSchema(m meta) error {
	if m.schema == nil {
		return fmt.Errorf("percolator: %w: the instance %s has no schema; create it with CreateSchema", ErrSchemaMismatch, c.cfg.Instance)
	}
	if c.cfg.Schema != nil {
		if err := c.cfg.Schema.Validate(); err != nil {
			return err
		}
		if string(m.schema.encode()) != string(c.cfg.Schema.encode()) {
			return fmt.Errorf("percolator: %w: Config.Schema differs from the stored schema (version %d); apply it with CreateSchema or leave Config.Schema nil", ErrSchemaMismatch, m.version)
		}
	}
	c.catalog.Store(newCatalog(m.schema))
	c.store.timing = m.schema.Timing.withDefaults() // before anything else is sent; it never changes
	return nil
}

// adopt takes over a newer schema that somebody has stored.
func (c *Client) adopt(old, now meta) {
	if now.schema != nil {
		c.catalog.Store(newCatalog(now.schema))
		c.cfg.Logger.Info("schema changed", "from", old.version, "to", now.version)
	}
}

// Schema is the stored schema as this client knows it. It must not be modified.
func (c *Client) Schema() *Schema { return c.catalog.Load().schema }

// Oracle is the oracle that this client uses: Config.Oracle, or the one that NewClient has dialed. It may offer more than timestamps
// (tso.Sessions, tso.RowLocks, tso.Hints). It must not be closed while the client is in use.
func (c *Client) Oracle() tso.Oracle { return c.oracle }

// Stats reads the client's counters.
func (c *Client) Stats() Stats { return c.count.read() }

// Flush waits until phase two of everything that was committed before the call is over, or ctx ends. A row that Bigtable
// refused for 30 s is over as well: it was logged, and whoever meets its lock finishes it.
func (c *Client) Flush(ctx context.Context) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	return c.bulk.flush(ctx)
}

// Close finishes phase two (at most 10 s when the store is down) and releases the connections. What could not be
// finished is left to lock resolution; nothing is lost. A second Close does nothing.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := c.bulk.flush(ctx)
	c.stop()
	c.running.Wait()
	c.bulk.close()
	c.hints.close()
	if c.metrics != nil {
		c.metrics.Unregister()
	}
	c.alive.close(ctx)
	if c.dialed != nil {
		c.dialed.Close()
	}
	if cerr := c.store.bt.Close(); err == nil && cerr != nil && !strings.Contains(cerr.Error(), "closing") {
		err = cerr
	}
	return err
}

// next asks the oracle (I1).
func (c *Client) next(ctx context.Context) (tso.Timestamp, error) {
	if err := checkContext(ctx); err != nil {
		return 0, err
	}
	if c.closed.Load() {
		return 0, fmt.Errorf("percolator: %w", ErrClosed)
	}
	ctx, cancel := context.WithTimeout(ctx, c.store.timing.RequestLifetime)
	defer cancel()
	ctx, span := c.trace.within(ctx, "percolator.timestamp")
	c.count.oracle.Add(1)
	asked := time.Now()
	ts, err := c.oracle.Next(ctx)
	c.tookOracle(ctx, asked, err)
	span.end(err)
	if err != nil {
		return 0, fmt.Errorf("percolator: oracle: %w", withContext(ctx, err))
	}
	c.newest.offer(stamp{ts, asked})
	return ts, nil
}

func (c *Client) tookOracle(ctx context.Context, asked time.Time, err error) {
	d := time.Since(asked)
	c.count.latency[opOracle].add(d)
	c.store.metrics.oracleRequest(ctx, d, err)
}

// SampleRowKeys lists the end keys of the table's tablets in order, as far as Bigtable tells; the list may be empty.
func (c *Client) SampleRowKeys(ctx context.Context, table string) ([]string, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	if _, ok := c.catalog.Load().user(table); !ok {
		return nil, unknownTable(table)
	}
	ctx, cancel := context.WithTimeout(ctx, c.store.timing.RequestLifetime)
	defer cancel()
	c.count.samples.Add(1)
	keys, err := c.store.table(table).SampleRowKeys(ctx)
	slices.Sort(keys)
	return keys, c.store.err(ctx, table, err)
}

func unknownTable(table string) error {
	return fmt.Errorf("percolator: table %q: %w: it is not in the schema; add it with CreateSchema", table, ErrSchemaMismatch)
}
