package measure

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// outage is what one client sees of tablet servers that are gone: between two moments, requests for
// rows of a range of keys fail with Unavailable. It stands in the client's connection, below
// everything that retries, so that Google's client and ours do what they do in production. Every
// process has one for itself, with the same moments by this machine's clock.
//
// A server that dies may have done what it was asked and not lived to say so. A write that was on
// its way when the outage began is applied and its answer lost; while the server dies, so is
// every other write that comes.
type outage struct {
	times atomic.Pointer[outageTimes] // nil: there is none

	refused atomic.Int64 // requests, and entries of requests, that were not applied
	lost    atomic.Int64 // writes that were applied and whose answer was lost
	turn    atomic.Int64 // of the writes that come while the server dies

	// A process that is severed gets no commit through any more, neither a commit point nor a phase
	// two; prewrites still go.
	severed atomic.Bool
	held    atomic.Int64 // commits that do not get through
}

// The third of the key space that fails: keys begin with four hexadecimal digits, evenly spread. It
// is the one in the middle, so that reads of many rows have live rows before it and behind it.
const (
	deadFrom = "5555"
	deadTo   = "aaaa"
)

// outageTimes are when the servers begin to die, when they are dead, and when others have taken
// their tablets over, by the clock of this machine.
type outageTimes struct{ Begins, Dead, Ends time.Time }

func (o *outage) down(now time.Time) bool {
	t := o.times.Load()
	return t != nil && !now.Before(t.Begins) && now.Before(t.Ends)
}

// refuses decides whether a write that is about to be sent to a dead row is not applied at all.
func (o *outage) refuses(now time.Time) bool {
	return o.down(now) && (!now.Before(o.times.Load().Dead) || o.turn.Add(1)%2 == 0)
}

// covers tells whether a row is dead while the outage lasts.
func covers(table string, row []byte) bool {
	return string(row) >= deadFrom && string(row) < deadTo && !exempts(table)
}

// exempts tells of the table that has other keys.
func exempts(table string) bool { return strings.HasSuffix(table, "/percolator_meta") }

var outageStatus = status.New(codes.Unavailable, "the benchmark's outage: no tablet server has this row")

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
	covered := covers(q.TableName, q.RowKey)
	if covered && o.refuses(time.Now()) {
		o.refused.Add(1)
		return outageStatus.Err()
	}
	err := invoke(ctx, method, req, resp, conn, opts...)
	if covered && o.down(time.Now()) { // it was on its way
		o.lost.Add(1)
		return outageStatus.Err()
	}
	return err
}

func (o *outage) hold(ctx context.Context) error {
	o.held.Add(1)
	<-ctx.Done()
	return status.FromContextError(ctx.Err()).Err()
}

// stream is the outage for requests with a stream of answers, which name many rows: reads, and bulk
// mutations.
func (o *outage) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	switch method {
	case btpb.Bigtable_ReadRows_FullMethodName, btpb.Bigtable_MutateRows_FullMethodName:
		start := func() (grpc.ClientStream, error) { return open(ctx, desc, conn, method, opts...) }
		return &outageStream{ClientStream: noStream{ctx}, ctx: ctx, o: o, open: start}, nil
	}
	return open(ctx, desc, conn, method, opts...)
}

// noStream is a stream whose request was not sent: it has ended.
type noStream struct{ ctx context.Context }

// SendMsg implements grpc.ClientStream, like the rest.
func (s noStream) SendMsg(any) error            { return nil }
func (s noStream) RecvMsg(any) error            { return io.EOF }
func (s noStream) CloseSend() error             { return nil }
func (s noStream) Context() context.Context     { return s.ctx }
func (s noStream) Header() (metadata.MD, error) { return metadata.MD{}, nil }
func (s noStream) Trailer() metadata.MD         { return metadata.MD{} }

// outageStream is opened when the request is known.
type outageStream struct {
	grpc.ClientStream // a noStream, unless something of the request is sent
	ctx               context.Context
	o                 *outage
	open              func() (grpc.ClientStream, error)

	// Of a read that met dead rows: it ends with Unavailable where they begin, unless it has its
	// rows by then.
	broken      bool
	limit, rows int64

	// Of a bulk mutation: which entries are sent (their indexes in the request), and which are not.
	sent, refused []int64
	mutate        *btpb.MutateRowsRequest
}

// SendMsg decides what becomes of the request.
func (s *outageStream) SendMsg(m any) (err error) {
	switch q := m.(type) {
	case *btpb.ReadRowsRequest:
		m = s.read(q)
	case *btpb.MutateRowsRequest:
		m, err = s.write(q)
	}
	if m == nil || err != nil {
		return err
	}
	if s.ClientStream, err = s.open(); err != nil {
		return err
	}
	return s.ClientStream.SendMsg(m)
}

func (s *outageStream) read(q *btpb.ReadRowsRequest) (send any) {
	before, touched := rowsBefore(q.Rows, deadFrom, deadTo)
	if exempts(q.TableName) || !s.o.down(time.Now()) || !touched {
		return q
	}
	s.o.refused.Add(1)
	s.broken, s.limit = true, q.RowsLimit
	if before == nil || q.Reversed {
		return nil
	}
	part := proto.Clone(q).(*btpb.ReadRowsRequest)
	part.Rows = before
	return part
}

func (s *outageStream) write(q *btpb.MutateRowsRequest) (send any, err error) {
	s.mutate = q
	part := &btpb.MutateRowsRequest{TableName: q.TableName, AppProfileId: q.AppProfileId}
	now := time.Now()
	for i, e := range q.Entries {
		if s.o.severed.Load() && len(committedColumns(e.Mutations)) > 0 {
			return nil, s.o.hold(s.ctx)
		}
		if covers(q.TableName, e.RowKey) && s.o.refuses(now) {
			s.refused = append(s.refused, int64(i))
			continue
		}
		s.sent, part.Entries = append(s.sent, int64(i)), append(part.Entries, e)
	}
	s.o.refused.Add(int64(len(s.refused)))
	if len(part.Entries) == 0 {
		return nil, nil
	}
	return part, nil
}

// RecvMsg passes answers on, and at their end says what the dead servers cannot.
func (s *outageStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		switch r := m.(type) {
		case *btpb.ReadRowsResponse:
			s.rows += rowsIn(r)
		case *btpb.MutateRowsResponse:
			s.answer(r)
		}
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	s.ClientStream = noStream{s.ctx}
	if s.broken && (s.limit == 0 || s.rows < s.limit) {
		return outageStatus.Err()
	}
	if r, ok := m.(*btpb.MutateRowsResponse); ok && len(s.refused) > 0 {
		for _, i := range s.refused {
			r.Entries = append(r.Entries, &btpb.MutateRowsResponse_Entry{Index: i, Status: outageStatus.Proto()})
		}
		s.refused = nil
		return nil
	}
	return io.EOF
}

// answer gives the entries the indexes that they have in the whole request, and loses what dead
// servers had to say.
func (s *outageStream) answer(r *btpb.MutateRowsResponse) {
	down := s.o.down(time.Now())
	for _, e := range r.Entries {
		if e.Index < 0 || e.Index >= int64(len(s.sent)) {
			continue // the client refuses it
		}
		e.Index = s.sent[e.Index]
		if down && covers(s.mutate.TableName, s.mutate.Entries[e.Index].RowKey) {
			s.o.lost.Add(1)
			e.Status = outageStatus.Proto()
		}
	}
}

// rowsBefore returns what a set of rows has before the range of keys, nil if that is nothing, and
// whether it reaches into the range.
func rowsBefore(set *btpb.RowSet, from, to string) (before *btpb.RowSet, touched bool) {
	if len(set.GetRowKeys()) == 0 && len(set.GetRowRanges()) == 0 {
		set = &btpb.RowSet{RowRanges: []*btpb.RowRange{{}}} // all rows
	}
	before = new(btpb.RowSet)
	for _, k := range set.RowKeys {
		touched = touched || string(k) >= from && string(k) < to
		if string(k) < from {
			before.RowKeys = append(before.RowKeys, k)
		}
	}
	for _, r := range set.RowRanges {
		start, end := rangeBounds(r)
		touched = touched || start < to && (end == "" || end > from)
		if start < from {
			part := &btpb.RowRange{StartKey: r.StartKey, EndKey: r.EndKey}
			if end == "" || end > from {
				part.EndKey = &btpb.RowRange_EndKeyOpen{EndKeyOpen: []byte(from)}
			}
			before.RowRanges = append(before.RowRanges, part)
		}
	}
	if len(before.RowKeys)+len(before.RowRanges) == 0 {
		before = nil
	}
	return before, touched
}

// rangeBounds are the keys between which a range lies, half open; an end of "" is none.
func rangeBounds(r *btpb.RowRange) (start, end string) {
	switch k := r.StartKey.(type) {
	case *btpb.RowRange_StartKeyClosed:
		start = string(k.StartKeyClosed)
	case *btpb.RowRange_StartKeyOpen:
		start = string(k.StartKeyOpen) + "\x00"
	}
	switch k := r.EndKey.(type) {
	case *btpb.RowRange_EndKeyOpen:
		end = string(k.EndKeyOpen)
	case *btpb.RowRange_EndKeyClosed:
		if len(k.EndKeyClosed) > 0 {
			end = string(k.EndKeyClosed) + "\x00"
		}
	}
	return start, end
}
