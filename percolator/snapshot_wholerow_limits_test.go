package percolator_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// namesNoColumn tells a read of whole rows.
func namesNoColumn(m *btpb.ReadRowsRequest) bool {
	for _, f := range m.GetFilter().GetChain().GetFilters() {
		if f.GetCellsPerRowLimitFilter() > 0 {
			return true
		}
	}
	return false
}

// readWire is what lies between a client and the store when it reads.
type readWire struct {
	refuse func(*btpb.ReadRowsRequest) error // the error of a request; nil: none is refused
	delay  func(context.Context)             // before a request is sent; nil: none
	bytes  atomic.Int64                      // of the answers
}

func (w *readWire) client(t testing.TB, env *percolatortest.Env) *percolator.Client {
	t.Helper()
	c, err := percolator.NewClient(fixture.Context(t), percolator.Config{Project: env.Project, Instance: env.Instance, Oracle: env.Oracle},
		append(env.Options(), option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(
			func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				s, err := open(ctx, desc, cc, method, opts...)
				return &wiredStream{ClientStream: s, wire: w}, err
			})))...)
	fixture.Must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

type wiredStream struct {
	grpc.ClientStream
	wire *readWire
	err  error
}

func (s *wiredStream) SendMsg(m any) error {
	if r, ok := m.(*btpb.ReadRowsRequest); ok {
		if s.wire.refuse != nil {
			s.err = s.wire.refuse(r)
		}
		if s.wire.delay != nil {
			s.wire.delay(s.Context())
		}
	}
	return s.ClientStream.SendMsg(m)
}

func (s *wiredStream) RecvMsg(m any) error {
	if s.err != nil {
		return s.err
	}
	err := s.ClientStream.RecvMsg(m)
	if p, ok := m.(proto.Message); ok && err == nil {
		s.wire.bytes.Add(int64(proto.Size(p)))
	}
	return err
}

// convince has a client read so much of a table of narrow rows that it reads whole ones from then
// on.
func convince(t *testing.T, ctx context.Context, c *percolator.Client) {
	t.Helper()
	for i := 0; !c.Engine().Reads.AllReadWhole("t"); i++ {
		fixture.WantNow(t, ctx, c, fixture.Cell(fmt.Sprint("other", i), "c"), "")
		if i > 1000 {
			t.Fatal("a table of narrow rows is not read by whole rows")
		}
	}
}

// A row may be too large to be read whole, although what is asked for is small: Bigtable refuses to
// return more than 256 MiB of one.
func TestRowTooLargeToBeReadWhole(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	fixture.Put(t, ctx, env.Client, "huge", "c", "v", "small", "c", "v")
	fixture.Must(t, env.Client.Flush(ctx))
	wire := &readWire{refuse: func(r *btpb.ReadRowsRequest) error {
		for _, k := range r.GetRows().GetRowKeys() {
			if string(k) == "huge" && namesNoColumn(r) {
				return status.Error(codes.FailedPrecondition, "the row exceeds the limit of 256 MiB")
			}
		}
		return nil
	}}
	for _, read := range []func(*percolator.Client) error{
		func(c *percolator.Client) error {
			s, err := c.Snapshot(ctx)
			fixture.Must(t, err)
			return fixture.ErrOf(s.Get(ctx, fixture.Cell("huge", "c")))
		},
		func(c *percolator.Client) error {
			s, err := c.Snapshot(ctx)
			fixture.Must(t, err)
			return fixture.ErrOf(s.GetMulti(ctx, fixture.Cell("small", "c"), fixture.Cell("huge", "c")))
		},
	} {
		c := wire.client(t, env)
		convince(t, ctx, c)
		if err := read(c); err != nil {
			t.Error(err)
		}
		if c.Engine().Reads.AllReadWhole("t") {
			t.Error("the trial goes on")
		}
	}
}

// The same for a row that takes longer than the caller has: the next caller gets an answer.
func TestWholeRowThatTakesTooLong(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "slow", "c", "v")
	convince(t, ctx, c)
	hold := percolatortest.NewHold()
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if m, ok := r.Message.(*btpb.ReadRowsRequest); ok && r.Row == "slow" && namesNoColumn(m) {
			return hold
		}
		return percolatortest.Pass
	})
	defer hold.Release()
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	fixture.WantErr(t, fixture.ErrOf(s.Get(short, fixture.Cell("slow", "c"))), context.DeadlineExceeded)
	fixture.WantValue(t, ctx, s, fixture.Cell("slow", "c"), "v")
}

// What a call brings that nobody asked for is bounded, before it is known that rows are heavy too.
func TestTrialOfHeavyRows(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	const rows = 64
	var cells []percolator.Cell
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
		for i := range rows {
			fixture.Must(t, tx.Set(fixture.Cell(fixture.Key(i), "body"), make([]byte, 256<<10)))
			fixture.Must(t, tx.Set(fixture.Cell(fixture.Key(i), "c"), []byte("v")))
			cells = append(cells, fixture.Cell(fixture.Key(i), "c"))
		}
		return nil
	}))
	fixture.Must(t, env.Client.Flush(ctx))
	wire := new(readWire)
	c := wire.client(t, env)
	convince(t, ctx, c)
	wire.bytes.Store(0)
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	values, err := s.GetMulti(ctx, cells...)
	fixture.Must(t, err)
	for i, v := range values {
		if string(v) != "v" {
			t.Errorf("row %d: %q", i, v)
		}
	}
	if n := wire.bytes.Load(); n > 3<<20 {
		t.Errorf("%d KB came for %d bytes that were asked for", n>>10, rows)
	}
}

// A cell that is locked once does not make the scans of its table bring two versions of everything.
func TestScansBringOneVersion(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	const rows = 20
	for range 2 {
		fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
			for i := range rows {
				fixture.Must(t, tx.Set(fixture.Cell(fixture.Key(i), "body"), make([]byte, 16<<10)))
			}
			return nil
		}))
	}
	fixture.Must(t, env.Client.Flush(ctx))
	wire := new(readWire)
	c := wire.client(t, env)
	scan := func() int64 {
		wire.bytes.Store(0)
		s, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		fixture.Must(t, fixture.FirstError(s.Scan(ctx, "t", percolator.All())))
		return wire.bytes.Load()
	}
	before := scan()
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
		return fixture.ErrOf(tx.GetForUpdate(ctx, fixture.Cell(fixture.Key(7), "body")))
	}))
	fixture.Must(t, env.Client.Flush(ctx))
	for i := range 3 {
		if after := scan(); after > before*3/2 {
			t.Errorf("scan %d brings %d KB, before one cell of %d was locked it was %d KB", i, after>>10, rows, before>>10)
		}
	}
}

// A store that is slow, but answers, still gets batches: more and smaller requests would make it
// slower.
func TestSlowStoreStillGetsBatches(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testSlowStoreStillGetsBatches)
}

func testSlowStoreStillGetsBatches(t *testing.T) {
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	var slow atomic.Bool
	var n atomic.Int64
	wire := &readWire{delay: func(ctx context.Context) {
		if slow.Load() {
			n.Add(1)
			select {
			case <-time.After(1200 * time.Millisecond): // more than a batch may keep its place
			case <-ctx.Done():
			}
		}
	}}
	c := wire.client(t, env)
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	slow.Store(true)
	var wg sync.WaitGroup
	for i := range 256 {
		wg.Go(func() {
			if v, err := s.GetMulti(ctx, fixture.Cell(fixture.Key(i), "c")); err != nil || v[0] != nil {
				t.Errorf("%q, %v", v, err)
			}
		})
	}
	wg.Wait()
	if n.Load() > 10 {
		t.Errorf("256 reads took %d requests", n.Load())
	}
}
