package measure

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// outage is what one client sees of tablet servers that are gone: between two moments, requests for rows of a range of keys
// fail with Unavailable. It stands in the client's connection, below everything that retries, so that Google's client and
// ours do what they do in production. Every process has one for itself, with the same moments by this machine's clock.
//
// A server that dies may have done what it was asked and not lived to say so. A write that was on its way when the outage
// began is applied and its answer lost; for as long as dying, so is every other write that comes.
type outage struct {
	from, to string // row keys, half open, in every table that has such keys
	exempt   string // how the name of the table ends that has other keys

	begins, ends, dying atomic.Int64 // nanoseconds since 1970; nanoseconds

	refused atomic.Int64 // requests, and entries of requests, that were not applied
	lost    atomic.Int64 // writes that were applied and whose answer was lost
	turn    atomic.Int64 // of the writes that come while the server dies

	// A process that is severed gets no commit through any more, neither a commit point nor a phase two; prewrites still go.
	severed atomic.Bool
	held    atomic.Int64 // commits that do not get through

	// committed is told of each row in which a column was committed by a conditional mutation of this client, and when it knew.
	// Commit points are, and so are locks of others that it settles. nil: nobody wants to know.
	committed func(row, column string, at time.Time)
}

// The third of the key space that fails: keys begin with four hexadecimal digits, evenly spread. It is the one in the middle,
// so that reads of many rows have live rows before it and behind it.
const (
	deadFrom = "5555"
	deadTo   = "aaaa"
)

func newOutage() *outage {
	return &outage{from: deadFrom, to: deadTo, exempt: "/percolator_meta"}
}

// schedule sets when the servers die and when others have taken their tablets over.
func (o *outage) schedule(s outageTimes) {
	o.dying.Store(int64(min(100*time.Millisecond, s.Ends.Sub(s.Begins)/10)))
	o.ends.Store(s.Ends.UnixNano())
	o.begins.Store(s.Begins.UnixNano())
}

// outageTimes are two moments by the clock of this machine.
type outageTimes struct {
	Begins time.Time `json:"begins"`
	Ends   time.Time `json:"ends"`
}

func (o *outage) down(now time.Time) bool {
	at := now.UnixNano()
	return at >= o.begins.Load() && at < o.ends.Load()
}

// refuses decides whether a write that is about to be sent to a dead row is not applied at all.
func (o *outage) refuses(now time.Time) bool {
	if !o.down(now) {
		return false
	}
	return now.UnixNano() >= o.begins.Load()+o.dying.Load() || o.turn.Add(1)%2 == 0
}

func (o *outage) covers(table string, row []byte) bool {
	return string(row) >= o.from && string(row) < o.to && !o.exempts(table)
}

func (o *outage) exempts(table string) bool { return bytes.HasSuffix([]byte(table), []byte(o.exempt)) }

func errOutage() error {
	return status.Error(codes.Unavailable, "the benchmark's outage: no tablet server has this row")
}

// options puts the outage between a client and the store.
func (o *outage) options() []option.ClientOption { return intercepted(o.unary, o.stream) }

func (o *outage) unary(ctx context.Context, method string, req, resp any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	q, ok := req.(*btpb.CheckAndMutateRowRequest)
	if !ok {
		return invoke(ctx, method, req, resp, conn, opts...) // a ping, or the oracle's store
	}
	if o.severed.Load() && len(committedColumns(q.TrueMutations)) > 0 {
		return o.hold(ctx)
	}
	covered := o.covers(q.TableName, q.RowKey)
	if covered && o.refuses(time.Now()) {
		o.refused.Add(1)
		return errOutage()
	}
	err := invoke(ctx, method, req, resp, conn, opts...)
	now := time.Now()
	if covered && o.down(now) { // it was on its way
		o.lost.Add(1)
		return errOutage()
	}
	if o.committed != nil && err == nil && resp.(*btpb.CheckAndMutateRowResponse).PredicateMatched {
		for _, column := range committedColumns(q.TrueMutations) {
			o.committed(string(q.RowKey), column, now)
		}
	}
	return err
}

func (o *outage) hold(ctx context.Context) error {
	o.held.Add(1)
	<-ctx.Done()
	return status.FromContextError(ctx.Err()).Err()
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
