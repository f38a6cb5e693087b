package measure

import (
	"context"
	"errors"
	"io"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// stream is the outage for requests with a stream of answers, which name many rows: reads, and bulk mutations.
func (o *outage) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	switch method {
	case btpb.Bigtable_ReadRows_FullMethodName, btpb.Bigtable_MutateRows_FullMethodName:
		start := func() (grpc.ClientStream, error) { return open(ctx, desc, conn, method, opts...) }
		return &outageStream{o: o, ctx: ctx, open: start}, nil
	}
	return open(ctx, desc, conn, method, opts...)
}

// outageStream is opened when the request is known.
type outageStream struct {
	o    *outage
	ctx  context.Context
	open func() (grpc.ClientStream, error)
	live grpc.ClientStream // nil: nothing of the request is sent

	// Of a read that met dead rows: it ends with Unavailable where they begin, unless it has its rows by then.
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
		if m, err = s.read(q); err != nil {
			return err
		}
	case *btpb.MutateRowsRequest:
		if m, err = s.write(q); err != nil {
			return err
		}
	}
	if m == nil {
		return nil
	}
	if s.live, err = s.open(); err != nil {
		return err
	}
	return s.live.SendMsg(m)
}

func (s *outageStream) read(q *btpb.ReadRowsRequest) (send any, err error) {
	if s.o.exempts(q.TableName) || !s.o.down(time.Now()) {
		return q, nil
	}
	before, touched := rowsBefore(q.Rows, s.o.from, s.o.to)
	if !touched {
		return q, nil
	}
	s.o.refused.Add(1)
	s.broken, s.limit = true, q.RowsLimit
	if before == nil || q.Reversed {
		return nil, nil
	}
	part := proto.Clone(q).(*btpb.ReadRowsRequest)
	part.Rows = before
	return part, nil
}

func (s *outageStream) write(q *btpb.MutateRowsRequest) (send any, err error) {
	s.mutate = q
	part := &btpb.MutateRowsRequest{TableName: q.TableName, AppProfileId: q.AppProfileId}
	now := time.Now()
	for i, e := range q.Entries {
		if s.o.severed.Load() && len(committedColumns(e.Mutations)) > 0 {
			return nil, s.o.hold(s.ctx)
		}
		if s.o.covers(q.TableName, e.RowKey) && s.o.refuses(now) {
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
	if s.live != nil {
		err := s.live.RecvMsg(m)
		switch r := m.(type) {
		case *btpb.ReadRowsResponse:
			s.count(r)
		case *btpb.MutateRowsResponse:
			if err == nil {
				s.answer(r)
			}
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
		s.live = nil
	}
	if s.broken && (s.limit == 0 || s.rows < s.limit) {
		return errOutage()
	}
	if r, ok := m.(*btpb.MutateRowsResponse); ok && len(s.refused) > 0 {
		for _, i := range s.refused {
			r.Entries = append(r.Entries, &btpb.MutateRowsResponse_Entry{Index: i, Status: outageStatus()})
		}
		s.refused = nil
		return nil
	}
	return io.EOF
}

func (s *outageStream) count(r *btpb.ReadRowsResponse) {
	for _, c := range r.Chunks {
		if c.GetCommitRow() {
			s.rows++
		}
	}
}

// answer gives the entries the indexes that they have in the whole request, and loses what dead servers had to say.
func (s *outageStream) answer(r *btpb.MutateRowsResponse) {
	down := s.o.down(time.Now())
	for _, e := range r.Entries {
		if e.Index < 0 || e.Index >= int64(len(s.sent)) {
			continue // the client refuses it
		}
		e.Index = s.sent[e.Index]
		if down && s.o.covers(s.mutate.TableName, s.mutate.Entries[e.Index].RowKey) {
			s.o.lost.Add(1)
			e.Status = outageStatus()
		}
	}
}

func outageStatus() *rpcstatus.Status {
	return &rpcstatus.Status{Code: int32(codes.Unavailable), Message: "the benchmark's outage"}
}

// CloseSend implements grpc.ClientStream, like the rest.
func (s *outageStream) CloseSend() error {
	if s.live == nil {
		return nil
	}
	return s.live.CloseSend()
}

func (s *outageStream) Context() context.Context { return s.ctx }

func (s *outageStream) Header() (metadata.MD, error) {
	if s.live == nil {
		return nil, nil
	}
	return s.live.Header()
}

func (s *outageStream) Trailer() metadata.MD {
	if s.live == nil {
		return nil
	}
	return s.live.Trailer()
}

// rowsBefore returns what a set of rows has before the range of keys, nil if that is nothing, and whether it reaches into the range.
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
