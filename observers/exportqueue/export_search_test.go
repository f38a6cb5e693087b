package exportqueue_test

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// slowRead is a read of a range that stands between two rows for a while, as a read of Bigtable
// may: it is atomic in each row only. The test makes sure that the rows before the place hold
// nothing when it gets there; so the part before it is left out.
type slowRead struct {
	from  []byte
	there chan struct{} // closed when the read has come
	goOn  chan []byte   // receives the row behind which it goes on
	once  sync.Once
}

func (s *slowRead) intercept(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, cc, method, opts...)
	return slowStream{stream, s}, err
}

type slowStream struct {
	grpc.ClientStream
	*slowRead
}

func (s slowStream) SendMsg(m any) error {
	if r, ok := m.(*btpb.ReadRowsRequest); ok && len(r.GetRows().GetRowRanges()) == 1 {
		if first := r.Rows.RowRanges[0]; bytes.Equal(first.GetStartKeyClosed(), s.from) {
			s.once.Do(func() {
				close(s.there)
				first.StartKey = &btpb.RowRange_StartKeyOpen{StartKeyOpen: <-s.goOn}
			})
		}
	}
	return s.ClientStream.SendMsg(m)
}

// slowReader makes a client whose first read from s.from is s.
func (e *env) slowReader(s *slowRead) *percolator.Client {
	e.Helper()
	c, err := percolator.NewClient(e.ctx, percolator.Config{Project: e.Project, Instance: e.Instance, Oracle: e.Oracle},
		append(e.Options(), option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(s.intercept)))...)
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { _ = c.Close() })
	return c
}

// TestNoEntryIsLostBetweenTwoRowsOfASearch: a run looks for the dirty slices of its partition with
// a read that is atomic in each row only. It reads the slice's row before transaction A has written
// its notification there, and A's entry after A has committed, and might pass over the slice. That
// its snapshot is later than A's commit timestamp does not help. Then it erases the slice's
// notifications up to its snapshot, A's among them: it has to have read the slice.
func TestNoEntryIsLostBetweenTwoRowsOfASearch(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(c *exportqueue.Config) { c.Partitions = 1 })
	cfg := observers.Config{DisableRowLocks: true}

	// One worker is delivering the first entry.
	e.add("k", "0")
	var slice string
	for p, err := range admin.New(e.client).ScanPending(e.ctx, "exports", percolator.All()) {
		if err != nil {
			t.Fatal(err)
		}
		slice = p.Row
	}
	delivering, deliver := make(chan struct{}), make(chan struct{})
	first := &receiver{fail: func(int) error { close(delivering); <-deliver; return nil }}
	_, stop := e.export(e.NewClient(), first, cfg)
	<-delivering

	// A is about to write its notification: it has its commit timestamp.
	writer, hold := e.NewClient(), percolatortest.NewHold()
	e.FaultsOf(writer).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows && r.Sets("notify") {
			return hold
		}
		return percolatortest.Pass
	})
	a := e.begin(writer)
	e.queueIn(a, "k", "1")
	committed := make(chan error, 1)
	go func() { _, err := a.Commit(e.ctx); committed <- err }()
	hold.Wait(t, 1)

	// Another worker has seen the first entry's notification and begins a run.
	read := &slowRead{from: []byte("000."), there: make(chan struct{}), goOn: make(chan []byte, 1)}
	second := &receiver{}
	w, _ := e.exportSearching(e.NewClient(), e.slowReader(read), second, cfg)
	<-read.there

	// The first worker has done its work, and its notification goes. Nothing is in the slice's row
	// when the read passes it.
	close(deliver)
	inRow := func() (n int) {
		for p, err := range admin.New(e.client).ScanPending(e.ctx, "exports", percolator.Row(slice)) {
			if err != nil {
				t.Fatal(err)
			}
			n += len(p.Notified) + len(p.Locks)
		}
		return n
	}
	e.until("the first notification is erased", func() bool { return inRow() == 0 })
	stop()

	// A's notification is written, and A commits, before the read gets to the row of the entry.
	hold.Release()
	if err := <-committed; err != nil {
		t.Fatal(err)
	}
	if err := writer.Flush(e.ctx); err != nil {
		t.Fatal(err)
	}
	read.goOn <- []byte(slice)
	e.until("the run has ended", func() bool { return w.Stats().Observers["export-000"].Runs > 0 })
	e.idle(w)
	if got, left := values(append(first.entries(), second.entries()...)), e.pending(); !slices.Contains(got, "k=1") || len(left) != 0 {
		t.Errorf("delivered %v, left in the queue with nothing to wake anybody up: %v (clean: %v)", got, left, e.clean())
	}
}
