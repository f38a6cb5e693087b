package measure

import (
	"context"
	"fmt"
	"maps"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/gopercolator/percolator/tso"
)

// intercepted puts interceptors into a client's connection to Bigtable.
func intercepted(unary grpc.UnaryClientInterceptor, stream grpc.StreamClientInterceptor) []option.ClientOption {
	return []option.ClientOption{
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(unary)), option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(stream)),
	}
}

// delayed lets each request to Bigtable take a time, as by a network.
func delayed(delay time.Duration) []option.ClientOption {
	return intercepted(
		func(ctx context.Context, method string, req, resp any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			pause(ctx, delay)
			return invoke(ctx, method, req, resp, conn, opts...)
		},
		func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
			open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			pause(ctx, delay)
			return open(ctx, desc, conn, method, opts...)
		})
}

// distantClient is an oracle that is far away: a request for a timestamp takes longer by delay.
// Sessions, hints and locks on rows are passed on as they are: no transaction waits for them.
type distantClient struct {
	*tso.Client
	delay  time.Duration
	waited atomic.Int64 // requests that measured transactions waited for, not those made ahead
}

// waitedFor marks the context of a transaction that is measured. The client's own goroutines have
// another.
type waitedFor struct{}

// Next implements tso.Oracle.
func (o *distantClient) Next(ctx context.Context) (tso.Timestamp, error) {
	o.travel(ctx)
	return o.Client.Next(ctx)
}

// NextBlock implements tso.Blocks.
func (o *distantClient) NextBlock(ctx context.Context, n int) (tso.Timestamp, error) {
	o.travel(ctx)
	return o.Client.NextBlock(ctx, n)
}

func (o *distantClient) travel(ctx context.Context) {
	if ctx.Value(waitedFor{}) != nil {
		o.waited.Add(1)
	}
	pause(ctx, o.delay)
}

// distantOracle serves an oracle, near and far. It is reached over gRPC like the store, so that a
// timestamp is no cheaper than another request.
func (e *environment) distantOracle(ctx context.Context, delay time.Duration) (near *tso.Client, far *distantClient) {
	e.serveOracle(ctx, tso.NewMemoryStore(), tso.ServerConfig{})
	near = e.dial(ctx, e.at.Oracle)
	return near, &distantClient{Client: near, delay: delay}
}

// requestCounter counts the requests of a client to Bigtable by method, and the rows that they
// return, and knows whether one is under way. Without own it leaves out the library's own tables: a
// client keeps its knowledge of the schema and of collection fresh, which belongs to no operation.
type requestCounter struct {
	own   bool
	table string                          // only requests to it; "": to all
	saw   func(req *btpb.ReadRowsRequest) // of each that counts; may be nil

	mu       sync.Mutex
	n        map[string]int64
	rows     int64
	underWay int
	last     time.Time // when one began or ended
}

// counted is what a counter has counted.
type counted struct {
	requests map[string]int64
	rows     int64
}

// option makes a client's requests count.
func (c *requestCounter) option() option.ClientOption {
	return option.WithGRPCDialOption(grpc.WithStatsHandler(c))
}

type countedCall struct{ by *requestCounter } // key of a context

// TagRPC implements stats.Handler: the method is known here only.
func (c *requestCounter) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	method := path.Base(info.FullMethodName)
	return context.WithValue(ctx, countedCall{c}, &method)
}

// HandleRPC implements stats.Handler.
func (c *requestCounter) HandleRPC(ctx context.Context, event stats.RPCStats) {
	method, _ := ctx.Value(countedCall{c}).(*string) // "": it does not count
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e := event.(type) {
	case *stats.Begin:
		c.underWay++
		c.last = time.Now()
	case *stats.End:
		c.underWay--
		c.last = time.Now()
	case *stats.OutPayload:
		to, ok := e.Payload.(interface{ GetTableName() string }) // else that a connection is warm
		if !ok || !c.own && ownTable(to.GetTableName()) || c.table != "" && path.Base(to.GetTableName()) != c.table {
			*method = ""
			return
		}
		if c.n == nil {
			c.n = map[string]int64{}
		}
		c.n[*method]++
		if read, ok := e.Payload.(*btpb.ReadRowsRequest); ok && c.saw != nil {
			c.saw(read)
		}
	case *stats.InPayload:
		if answer, ok := e.Payload.(*btpb.ReadRowsResponse); ok && *method != "" {
			c.rows += rowsIn(answer)
		}
	}
}

// ownTable tells the library's own tables from those of users.
func ownTable(name string) bool { return strings.HasPrefix(path.Base(name), "percolator_") }

// rowsIn is how many rows end in an answer.
func rowsIn(r *btpb.ReadRowsResponse) (n int64) {
	for _, chunk := range r.Chunks {
		if chunk.GetCommitRow() {
			n++
		}
	}
	return n
}

// TagConn and HandleConn implement stats.Handler.
func (c *requestCounter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return ctx
}

// HandleConn does nothing.
func (c *requestCounter) HandleConn(context.Context, stats.ConnStats) {}

// now returns the counts so far.
func (c *requestCounter) now() counted {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := counted{map[string]int64{}, c.rows}
	maps.Copy(out.requests, c.n)
	return out
}

// take returns the counts since the last call.
func (c *requestCounter) take() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.n
	c.n = nil
	return out
}

// awaitQuiet waits until there has been no request for so long.
func (c *requestCounter) awaitQuiet(ctx context.Context, d time.Duration) error {
	for {
		c.mu.Lock()
		wait := d - time.Since(c.last)
		if c.underWay > 0 {
			wait = d
		}
		c.mu.Unlock()
		if wait <= 0 {
			return nil
		}
		if pause(ctx, wait); ctx.Err() != nil {
			return fmt.Errorf("there were always requests: %w", ctx.Err())
		}
	}
}

// minus returns what was counted since former, by kind.
func minus(now, former map[string]int64) map[string]int64 {
	out := map[string]int64{}
	for kind, n := range now {
		if n -= former[kind]; n > 0 {
			out[kind] = n
		}
	}
	return out
}

// addTo adds counts, by kind.
func addTo(sum *map[string]int64, counts map[string]int64) {
	if *sum == nil {
		*sum = map[string]int64{}
	}
	for kind, n := range counts {
		(*sum)[kind] += n
	}
}

// commitClock notes when the commit points of a client's transactions were passed: when the store's
// answer to the conditional mutation that writes the record of a cell was there. No cell is durable
// before, and no process hears of it earlier; the commit of an observer is seen in the same way as
// the commit of a writer, by the same clock, without asking either of them. It sees cells in the
// primaries' rows only.
type commitClock struct {
	mu      sync.Mutex
	commits map[committedCell]*firstCommit
}

// firstCommit is the first commit of a cell.
type firstCommit struct {
	at   time.Time
	done chan struct{} // closed then
}

type committedCell struct{ row, column string }

// recordFamily is where a commit writes its record (docs/internals/PROTOCOL.md, "Cells").
const recordFamily = "write"

func newCommitClock() *commitClock {
	return &commitClock{commits: map[committedCell]*firstCommit{}}
}

// option makes a client of Bigtable show its commits to the clock.
func (c *commitClock) option() option.ClientOption {
	return option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, resp any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(ctx, method, req, resp, conn, opts...)
			if q, ok := req.(*btpb.CheckAndMutateRowRequest); ok && err == nil && resp.(*btpb.CheckAndMutateRowResponse).PredicateMatched {
				c.note(q, time.Now())
			}
			return err
		}))
}

func (c *commitClock) note(req *btpb.CheckAndMutateRowRequest, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, column := range committedColumns(req.TrueMutations) {
		if first := c.of(string(req.RowKey), column); first.at.IsZero() {
			first.at = now
			close(first.done)
		}
	}
}

// of is the first commit of a cell, whether or not it has been. The caller holds mu.
func (c *commitClock) of(row, column string) *firstCommit {
	cell := committedCell{row, column}
	if c.commits[cell] == nil {
		c.commits[cell] = &firstCommit{done: make(chan struct{})}
	}
	return c.commits[cell]
}

// committedColumns returns the columns for which the mutations write the record of a commit.
func committedColumns(muts []*btpb.Mutation) (columns []string) {
	for _, m := range muts {
		if set := m.GetSetCell(); set != nil && set.FamilyName == recordFamily {
			columns = append(columns, string(set.ColumnQualifier))
		}
	}
	return columns
}

// committed returns when the cell was first committed, the zero time if it was not.
func (c *commitClock) committed(row, column string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of(row, column).at
}

// await waits until the cell has been committed, and returns when that was.
func (c *commitClock) await(ctx context.Context, row, column string) (time.Time, error) {
	c.mu.Lock()
	first := c.of(row, column)
	c.mu.Unlock()
	select {
	case <-first.done:
		return first.at, nil
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// take returns the times of a column's commits by row since it was last called.
func (c *commitClock) take(column string) map[string]time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]time.Time{}
	for cell, first := range c.commits {
		if cell.column == column && !first.at.IsZero() {
			out[cell.row] = first.at
			delete(c.commits, cell)
		}
	}
	return out
}
