package percolator_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// tablets stands between a client and the store: it says where tables are cut, holds the reads of
// one tablet while it is slow, and counts requests. Rows of a tablet begin with its name, which is
// one byte.
type tablets struct {
	names string // ascending

	mu      sync.Mutex
	slow    byte          // 0: none
	quick   chan struct{} // closed when none is slow any more
	mixed   int           // reads that named rows of several tablets
	samples atomic.Int64
}

// clientOf is a client of env whose tables are cut into the named tablets.
func clientOf(t *testing.T, env *percolatortest.Env, names string) (*tablets, *percolator.Client) {
	t.Helper()
	ts := &tablets{names: names, quick: make(chan struct{})}
	c, err := percolator.NewClient(fixture.Context(t), percolator.Config{Project: env.Project, Instance: env.Instance, Oracle: env.Oracle},
		append(env.Options(), option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(ts.intercept)))...)
	fixture.Must(t, err)
	t.Cleanup(func() { fixture.Must(t, c.Close()) })
	return ts, c
}

func (ts *tablets) intercept(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	switch method {
	case btpb.Bigtable_SampleRowKeys_FullMethodName:
		ts.samples.Add(1)
		return &sampleStream{ctx: ctx, ends: ts.names[1:]}, nil
	case btpb.Bigtable_ReadRows_FullMethodName:
		s, err := open(ctx, desc, cc, method, opts...)
		return &tabletStream{ClientStream: s, tablets: ts}, err
	}
	return open(ctx, desc, cc, method, opts...)
}

// makeSlow holds reads that name a row of the tablet from now on, until the function is called that
// it returns.
func (ts *tablets) makeSlow(name byte) (quick func()) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.slow, ts.mixed = name, 0
	return func() { close(ts.quick) }
}

func (ts *tablets) mixedReads() int {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.mixed
}

// wait counts a read, and waits if it names a row of the slow tablet.
func (ts *tablets) wait(ctx context.Context, r *btpb.ReadRowsRequest) error {
	seen := map[byte]bool{}
	for _, key := range r.GetRows().GetRowKeys() {
		seen[key[0]] = true
	}
	ts.mu.Lock()
	if len(seen) > 1 {
		ts.mixed++
	}
	slow := ts.slow != 0 && seen[ts.slow]
	ts.mu.Unlock()
	if !slow {
		return nil
	}
	select {
	case <-ts.quick:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type tabletStream struct {
	grpc.ClientStream
	tablets *tablets
}

func (s *tabletStream) SendMsg(m any) error {
	if r, ok := m.(*btpb.ReadRowsRequest); ok {
		if err := s.tablets.wait(s.Context(), r); err != nil {
			return err
		}
	}
	return s.ClientStream.SendMsg(m)
}

// sampleStream answers SampleRowKeys with keys of one byte each.
type sampleStream struct {
	grpc.ClientStream
	ctx  context.Context
	ends string
}

func (s *sampleStream) Context() context.Context     { return s.ctx }
func (s *sampleStream) Header() (metadata.MD, error) { return nil, nil }
func (s *sampleStream) Trailer() metadata.MD         { return nil }
func (s *sampleStream) SendMsg(any) error            { return nil }
func (s *sampleStream) CloseSend() error             { return nil }

func (s *sampleStream) RecvMsg(m any) error {
	if s.ends == "" {
		return io.EOF
	}
	m.(*btpb.SampleRowKeysResponse).RowKey = []byte(s.ends[:1])
	s.ends = s.ends[1:]
	return nil
}

// readers read rows of tables, all at once.
type readers struct {
	all  sync.WaitGroup
	done [256]atomic.Int64 // by tablet
}

func (r *readers) start(t *testing.T, ctx context.Context, s *percolator.Snapshot, table string, tablets string, each int) {
	for i := range each {
		for _, name := range []byte(tablets) {
			r.all.Go(func() {
				cell := percolator.Cell{Table: table, Row: fmt.Sprintf("%c%04d", name, i), Column: "c"}
				fixture.WantErr(t, fixture.ErrOf(s.Get(ctx, cell)), percolator.ErrNotFound)
				r.done[name].Add(1)
			})
		}
	}
}

// A tablet that is slow keeps its own reads waiting. Those of other tablets and tables travel on,
// those that were sent with its own among them.
func TestSlowTabletHoldsUpNoOtherReads(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testSlowTabletHoldsUpNoOtherReads)
}

func testSlowTabletHoldsUpNoOtherReads(t *testing.T) {
	const each = 100
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	ts, c := clientOf(t, env, "abcd")
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)

	// Nobody knows yet where the table is cut.
	quick := ts.makeSlow('b')
	var r readers
	r.start(t, ctx, s, "t", "b", 2)
	fixture.Eventually(t, "a batch", func() bool { return c.Engine().Reads.Waiting() == 0 })
	r.start(t, ctx, s, "t", "abcd", each)
	r.start(t, ctx, s, "u", "acd", each)
	passed := func() bool {
		return !slices.ContainsFunc([]byte("acd"), func(name byte) bool { return r.done[name].Load() < 2*each })
	}
	fixture.Eventually(t, "reads of other tablets pass the slow one", passed)
	if n := r.done['b'].Load(); n > 0 {
		t.Errorf("%d reads of a tablet that does not answer were answered", n)
	}
	if n := ts.samples.Load(); n != 1 {
		t.Errorf("asked %d times for the bounds of one table", n)
	}

	// Now it is known: nothing travels with rows of the slow tablet.
	_ = ts.makeSlow('b')
	s, err = c.Snapshot(ctx)
	fixture.Must(t, err)
	var again readers
	again.start(t, ctx, s, "t", "abcd", each)
	fixture.Eventually(t, "reads of other tablets pass the slow one", func() bool {
		return !slices.ContainsFunc([]byte("acd"), func(name byte) bool { return again.done[name].Load() < each })
	})
	if n := ts.mixedReads(); n > 0 {
		t.Errorf("%d requests named rows of several tablets", n)
	}
	quick()
	r.all.Wait()
	again.all.Wait()
}
