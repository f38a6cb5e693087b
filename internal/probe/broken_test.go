package probe

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	btapb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// A wrong stand-in is the strict one behind interceptors that change requests or answers.

func unary(f grpc.UnaryClientInterceptor) []option.ClientOption {
	return []option.ClientOption{option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(f))}
}

// edited is a stream whose messages are changed.
type edited struct {
	grpc.ClientStream
	send func(msg any)
	recv func(msg any) (again bool) // again: not this one
}

func (e *edited) SendMsg(msg any) error {
	if e.send != nil {
		e.send(msg)
	}
	return e.ClientStream.SendMsg(msg)
}

func (e *edited) RecvMsg(msg any) error {
	for {
		proto.Reset(msg.(proto.Message))
		if err := e.ClientStream.RecvMsg(msg); err != nil || e.recv == nil || !e.recv(msg) {
			return err
		}
	}
}

func stream(send func(msg any), recv func(msg any) bool) []option.ClientOption {
	return []option.ClientOption{option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(
		func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := open(ctx, desc, cc, method, opts...)
			if err != nil {
				return nil, err
			}
			return &edited{s, send, recv}, nil
		}))}
}

// counter counts what arrives at the stand-in.
type counter struct{ n, endless atomic.Int64 }

func (c *counter) see(ctx context.Context) {
	c.n.Add(1)
	if _, ok := ctx.Deadline(); !ok {
		c.endless.Add(1)
	}
}

func (c *counter) options() []option.ClientOption {
	count := unary(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		c.see(ctx)
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	return append(count, option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(
		func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			c.see(ctx)
			return open(ctx, desc, cc, method, opts...)
		})))
}

// requests changes requests of every kind before they are served.
func requests(change func(req any)) []option.ClientOption {
	return append(unary(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		req = proto.Clone(req.(proto.Message))
		change(req)
		return invoke(ctx, method, req, reply, cc, opts...)
	}), stream(change, nil)...)
}

// filters changes every filter, the innermost first.
func filters(change func(f *btpb.RowFilter)) []option.ClientOption {
	var walk func(f *btpb.RowFilter)
	walk = func(f *btpb.RowFilter) {
		for _, g := range append(f.GetChain().GetFilters(), f.GetInterleave().GetFilters()...) {
			walk(g)
		}
		if f != nil {
			change(f)
		}
	}
	return requests(func(req any) {
		switch r := req.(type) {
		case *btpb.ReadRowsRequest:
			walk(r.Filter)
		case *btpb.CheckAndMutateRowRequest:
			walk(r.PredicateFilter)
		}
	})
}

// mutations changes the mutations of each row; a nil one is left out.
func mutations(change func(row string, m *btpb.Mutation) *btpb.Mutation) []option.ClientOption {
	all := func(row []byte, list []*btpb.Mutation) []*btpb.Mutation {
		var out []*btpb.Mutation
		for _, m := range list {
			if m = change(string(row), m); m != nil {
				out = append(out, m)
			}
		}
		if len(out) == 0 && len(list) > 0 {
			out = append(out, harmless())
		}
		return out
	}
	return requests(func(req any) {
		switch r := req.(type) {
		case *btpb.MutateRowRequest:
			r.Mutations = all(r.RowKey, r.Mutations)
		case *btpb.MutateRowsRequest:
			for _, e := range r.Entries {
				e.Mutations = all(e.RowKey, e.Mutations)
			}
		case *btpb.CheckAndMutateRowRequest:
			r.TrueMutations, r.FalseMutations = all(r.RowKey, r.TrueMutations), all(r.RowKey, r.FalseMutations)
		}
	})
}

// harmless is a mutation that changes nothing.
func harmless() *btpb.Mutation {
	return &btpb.Mutation{Mutation: &btpb.Mutation_DeleteFromColumn_{DeleteFromColumn: &btpb.Mutation_DeleteFromColumn{FamilyName: "meta", ColumnQualifier: []byte("none")}}}
}

// answer is unary for one kind of request. served: the answer is what answer has made.
func answer[Req any](f func(req Req, reply any) (served bool, err error)) []option.ClientOption {
	return unary(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if r, ok := req.(Req); ok {
			if served, err := f(r, reply); served || err != nil {
				return err
			}
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})
}

// readThenWrite is conditional mutations that are not atomic.
func readThenWrite(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	r, ok := req.(*btpb.CheckAndMutateRowRequest)
	if !ok || len(r.TrueMutations) > 0 {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	look := proto.CloneOf(r)
	look.FalseMutations = []*btpb.Mutation{harmless()}
	if err := invoke(ctx, method, look, reply, cc, opts...); err != nil || reply.(*btpb.CheckAndMutateRowResponse).PredicateMatched {
		return err
	}
	return invoke(ctx, btpb.Bigtable_MutateRow_FullMethodName, &btpb.MutateRowRequest{TableName: r.TableName, RowKey: r.RowKey, Mutations: r.FalseMutations},
		new(btpb.MutateRowResponse), cc, opts...)
}

// inHalves is MutateRow that is not atomic: a read, if any comes, is served in the middle.
func inHalves() []option.ClientOption {
	const longest = 100 * time.Millisecond // of waiting for one
	read := make(chan struct{})
	write := unary(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		r, ok := req.(*btpb.MutateRowRequest)
		if !ok || string(r.RowKey) != "torn-reads" {
			return invoke(ctx, method, req, reply, cc, opts...)
		}
		half := proto.CloneOf(r)
		half.Mutations = half.Mutations[:len(half.Mutations)/2]
		if err := invoke(ctx, method, half, reply, cc, opts...); err != nil {
			return err
		}
		select {
		case <-read:
		case <-time.After(longest):
		}
		half.Mutations = r.Mutations[len(half.Mutations):]
		return invoke(ctx, method, half, reply, cc, opts...)
	})
	return append(write, stream(nil, func(msg any) bool {
		if _, ok := msg.(*btpb.ReadRowsResponse); ok {
			select {
			case read <- struct{}{}:
			default:
			}
		}
		return false
	})...)
}

// buried keeps erased versions erased, whatever is written later.
func buried() []option.ClientOption {
	type version struct {
		row, family, column string
		ts                  int64
	}
	var mu sync.Mutex
	graves := map[version]bool{}
	return mutations(func(row string, m *btpb.Mutation) *btpb.Mutation {
		mu.Lock()
		defer mu.Unlock()
		if e := m.GetDeleteFromColumn(); e.GetTimeRange() != nil {
			graves[version{row, e.FamilyName, string(e.ColumnQualifier), e.TimeRange.StartTimestampMicros}] = true
		}
		if s := m.GetSetCell(); s != nil && graves[version{row, s.FamilyName, string(s.ColumnQualifier), s.TimestampMicros}] {
			return nil
		}
		return m
	})
}

// clock is one that a test moves.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

type oracleFunc func(ctx context.Context) (tso.Timestamp, error)

func (f oracleFunc) Next(ctx context.Context) (tso.Timestamp, error) { return f(ctx) }

// changed is an oracle whose n-th timestamp is changed.
func changed(o tso.Oracle, change func(n int64, ts tso.Timestamp) tso.Timestamp) tso.Oracle {
	var n atomic.Int64
	return oracleFunc(func(ctx context.Context) (tso.Timestamp, error) {
		ts, err := o.Next(ctx)
		return change(n.Add(1), ts), err
	})
}

// wrongStandIns break one property each.
var wrongStandIns = []struct {
	line, name string
	breakIt    func(s *site)
}{
	{"identities", "a worker cannot connect", func(s *site) {
		s.rights["worker"] = emulator.Rights{Tables: s.rights["worker"].Tables}
	}},
	{"identities", "a worker writes every table", func(s *site) {
		s.rights["worker"] = emulator.Rights{Instance: emulator.Role("roles/bigtable.user"), Tables: s.rights["worker"].Tables}
	}},
	{"identities", "a reader writes", func(s *site) { s.rights["reader"] = s.rights["worker"] }},
	{"identities", "a batch job only reads", func(s *site) { s.rights["batch"] = s.rights["reader"] }},
	{"identities", "the oracle reads tables", func(s *site) { s.rights["oracle"] = s.rights["reader"] }},
	{"identities", "the oracle cannot write its record", func(s *site) { s.rights["oracle-record"] = s.rights["oracle"] }},
	{"identities", "schema removes tables", func(s *site) {
		s.rights["schema"] = emulator.Rights{Instance: append(slices.Clone(s.rights["schema"].Instance), "bigtable.tables.delete"), Tables: s.rights["schema"].Tables}
	}},
	{"identities", "schema cannot create tables", func(s *site) { s.rights["schema"] = s.rights["oracle-record"] }},
	{"missing-row", "a missing row counts as a match", func(s *site) {
		s.between = requests(func(req any) {
			if r, ok := req.(*btpb.CheckAndMutateRowRequest); ok && string(r.RowKey) == "missing-row" {
				r.PredicateFilter, r.TrueMutations, r.FalseMutations = nil, r.FalseMutations, r.TrueMutations
			}
		})
	}},
	{"missing-row", "a missing row is an error", func(s *site) {
		s.between = answer(func(r *btpb.CheckAndMutateRowRequest, _ any) (bool, error) {
			return false, map[bool]error{true: status.Error(codes.NotFound, "no such row")}[string(r.RowKey) == "missing-row"]
		})
	}},
	{"one-winner", "conditional mutations read, and then write", func(s *site) { s.between = unary(readThenWrite) }},
	{"cluster-routing", "several clusters apply conditional mutations", func(s *site) {
		s.profiles["anywhere"] = emulator.AppProfile{SingleCluster: true, TransactionalWrites: true}
	}},
	{"request-shapes", "ranges of columns include their end", func(s *site) {
		s.between = filters(func(f *btpb.RowFilter) {
			if r := f.GetColumnRangeFilter(); r != nil && len(r.GetEndQualifierOpen()) > 0 {
				r.EndQualifier = &btpb.ColumnRange_EndQualifierClosed{EndQualifierClosed: r.GetEndQualifierOpen()}
			}
		})
	}},
	{"request-shapes", "ranges of values include their end", func(s *site) {
		s.between = filters(func(f *btpb.RowFilter) {
			if r := f.GetValueRangeFilter(); r != nil && len(r.GetEndValueOpen()) > 0 {
				r.EndValue = &btpb.ValueRange_EndValueClosed{EndValueClosed: r.GetEndValueOpen()}
			}
		})
	}},
	{"request-shapes", "patterns know no bytes above 0x7f", func(s *site) {
		s.between = filters(func(f *btpb.RowFilter) {
			if p := f.GetColumnQualifierRegexFilter(); p != nil {
				f.Filter = &btpb.RowFilter_ColumnQualifierRegexFilter{ColumnQualifierRegexFilter: bytes.ReplaceAll(p, []byte(`\xe`), []byte(`\x6`))}
			}
		})
	}},
	{"request-shapes", "patterns match without their escapes", func(s *site) {
		s.between = filters(func(f *btpb.RowFilter) {
			if p := f.GetColumnQualifierRegexFilter(); p != nil {
				f.Filter = &btpb.RowFilter_ColumnQualifierRegexFilter{ColumnQualifierRegexFilter: bytes.ReplaceAll(p, []byte(`\x28`), []byte(`.`))}
			}
		})
	}},
	{"request-shapes", "values come where none are asked for", func(s *site) {
		s.between = filters(func(f *btpb.RowFilter) {
			if f.GetStripValueTransformer() {
				f.Filter = &btpb.RowFilter_PassAllFilter{PassAllFilter: true}
			}
		})
	}},
	{"request-shapes", "the limit of cells is one more", func(s *site) {
		s.between = filters(func(f *btpb.RowFilter) {
			if n := f.GetCellsPerRowLimitFilter(); n > 0 {
				f.Filter = &btpb.RowFilter_CellsPerRowLimitFilter{CellsPerRowLimitFilter: n + 1}
			}
		})
	}},
	{"request-shapes", "values are taken for UTF-8", func(s *site) {
		s.between = mutations(func(_ string, m *btpb.Mutation) *btpb.Mutation {
			if c := m.GetSetCell(); c != nil && c.FamilyName != "write" {
				c.Value = bytes.ToValidUTF8(c.Value, []byte("?"))
			}
			return m
		})
	}},
	{"torn-reads", "a row's mutations are applied one by one", func(s *site) { s.between = inHalves() }},
	{"rewritten-versions", "what was erased stays so", func(s *site) { s.between = buried() }},
	{"far-timestamps", "cells end with the year 9999", func(s *site) {
		s.between = mutations(func(_ string, m *btpb.Mutation) *btpb.Mutation {
			if c := m.GetSetCell(); c != nil {
				c.TimestampMicros = min(c.TimestampMicros, int64(lastOf9999)*1000)
			}
			return m
		})
	}},
	{"far-timestamps", "timestamps beyond the year 9999 are refused", func(s *site) {
		s.between = mutations(func(_ string, m *btpb.Mutation) *btpb.Mutation {
			if c := m.GetSetCell(); c.GetTimestampMicros() > int64(lastOf9999)*1000 {
				c.TimestampMicros = math.MaxInt64 // which is no multiple of 1000
			}
			return m
		})
	}},
	{"sizes", "row keys of any length", func(s *site) {
		s.between = answer(func(r *btpb.MutateRowRequest, _ any) (bool, error) { return len(r.RowKey) > 4<<10, nil })
	}},
	{"sizes", "shorter qualifiers", func(s *site) {
		s.between = answer(func(r *btpb.MutateRowRequest, _ any) (bool, error) {
			if len(r.Mutations[0].GetSetCell().GetColumnQualifier()) > 8<<10 {
				return false, status.Error(codes.InvalidArgument, "too long")
			}
			return false, nil
		})
	}},
	{"sizes", "any number of mutations", func(s *site) {
		s.between = requests(func(req any) {
			if r, ok := req.(*btpb.MutateRowRequest); ok {
				r.Mutations = r.Mutations[:min(len(r.Mutations), 100_000)]
			}
		})
	}},
	{"sizes", "filters of any size", func(s *site) {
		s.between = filters(func(f *btpb.RowFilter) {
			if v := f.GetValueRangeFilter().GetStartValueClosed(); len(v) > 20_000 {
				f.Filter = &btpb.RowFilter_BlockAllFilter{BlockAllFilter: true}
			}
		})
	}},
	{"sizes", "reads of any number of row keys", func(s *site) {
		s.between = requests(func(req any) {
			if r, ok := req.(*btpb.ReadRowsRequest); ok && len(r.GetRows().GetRowKeys()) > 128 {
				r.Rows.RowKeys = r.Rows.RowKeys[:128]
			}
		})
	}},
	{"missing-family", "another error", func(s *site) {
		s.between = answer(func(r *btpb.CheckAndMutateRowRequest, _ any) (bool, error) {
			return false, map[bool]error{true: status.Error(codes.FailedPrecondition, "something is missing")}[string(r.RowKey) == "missing-family"]
		})
	}},
	{"missing-family", "what can be applied is", func(s *site) {
		s.between = mutations(func(_ string, m *btpb.Mutation) *btpb.Mutation {
			if m.GetSetCell().GetFamilyName() == "none" {
				return nil
			}
			return m
		})
	}},
	{"progress", "a read that finds nothing says nothing", func(s *site) {
		s.onDisks()
		s.between = stream(nil, func(msg any) bool { return len(lastScanned(msg)) > 0 })
	}},
	{"progress", "a read has passed over what it has not", func(s *site) {
		s.onDisks()
		s.between = stream(nil, func(msg any) bool {
			if len(lastScanned(msg)) > 0 {
				msg.(*btpb.ReadRowsResponse).LastScannedRowKey = []byte("zzz")
			}
			return false
		})
	}},
	{"latency", "one operation is slow", func(s *site) {
		slow := new(clock)
		s.now = slow.now
		s.between = stream(func(msg any) {
			if _, ok := msg.(*btpb.SampleRowKeysRequest); ok {
				slow.ahead.Add(int64(2 * time.Second))
			}
		}, nil)
	}},
	{"oracle", "its clock is an hour ahead", func(s *site) {
		s.Oracle = changed(s.Oracle, func(_ int64, ts tso.Timestamp) tso.Timestamp { return ts.Add(time.Hour) })
	}},
	{"oracle", "it repeats a timestamp", func(s *site) {
		var last atomic.Int64
		s.Oracle = changed(s.Oracle, func(n int64, ts tso.Timestamp) tso.Timestamp {
			if n == 500 {
				return tso.Timestamp(last.Load())
			}
			last.Store(int64(ts))
			return ts
		})
	}},
	{"oracle", "it steps back", func(s *site) {
		s.Oracle = changed(s.Oracle, func(n int64, ts tso.Timestamp) tso.Timestamp {
			if n == 3 {
				return ts.Add(-time.Second)
			}
			return ts
		})
	}},
	{scratchTables, "tables are not removed", func(s *site) {
		var asked atomic.Int64 // the first time it does not exist yet
		s.between = answer(func(r *btapb.DeleteTableRequest, _ any) (bool, error) {
			return strings.HasSuffix(r.Name, testSuffix) && asked.Add(1) > 1, nil
		})
	}},
}

func lastScanned(msg any) []byte {
	r, _ := msg.(*btpb.ReadRowsResponse)
	return r.GetLastScannedRowKey()
}

// TestWrongStandInsAreFound: each fails its line, and no other.
func TestWrongStandInsAreFound(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, w := range wrongStandIns {
		found[w.line] = true
		t.Run(w.line+", "+w.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			if w.line == "request-shapes" || w.line == "sizes" {
				s.effort = &lineEffort
			}
			w.breakIt(s)
			s.start(t)
			levels, r := s.levels(t)
			for _, l := range r.Results {
				want := OK
				switch {
				case l.Name == w.line:
					want = Failed
				case l.Name == "progress" && s.disks == nil:
					want = NotChecked
				}
				if levels[l.Name] != want {
					t.Errorf("%s: %+v, want %q", l.Name, l.Findings, want)
				} else if want == Failed {
					t.Logf("%s: %s", l.Name, l.Findings[slices.IndexFunc(l.Findings, func(f Finding) bool { return f.Level == Failed })].Saw)
				}
			}
		})
	}
	for _, l := range Lines() {
		if !found[l.Name] {
			t.Errorf("no stand-in breaks %s", l.Name)
		}
	}
}

// tablesOf are the tables of a stand-in.
func tablesOf(t *testing.T, server *emulator.Server) []string {
	t.Helper()
	admin, err := bigtable.NewAdminClient(t.Context(), "p", "i", server.ClientOptionsOf("owner")...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	names, err := admin.Tables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return names
}
