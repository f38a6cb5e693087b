package tso

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/tso/tsopb"
)

// scripted is an oracle that answers as a test wants.
type scripted struct {
	tsopb.UnimplementedOracleServer
	address string
	calls   atomic.Int64
	next    func(ctx context.Context, n uint32) (*tsopb.NextResponse, error)
}

func (s *scripted) Next(ctx context.Context, req *tsopb.NextRequest) (*tsopb.NextResponse, error) {
	s.calls.Add(1)
	return s.next(ctx, req.GetCount())
}

// startScripted serves s on loopback until the test ends.
func startScripted(t *testing.T, next func(ctx context.Context, n uint32) (*tsopb.NextResponse, error)) *scripted {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{address: l.Addr().String(), next: next}
	rpc := grpc.NewServer()
	tsopb.RegisterOracleServer(rpc, s)
	go func() { _ = rpc.Serve(l) }()
	t.Cleanup(rpc.Stop)
	return s
}

// counter hands out consecutive timestamps.
type counter struct{ last atomic.Int64 }

func (c *counter) next(_ context.Context, n uint32) (*tsopb.NextResponse, error) {
	last := c.last.Add(int64(n))
	return &tsopb.NextResponse{First: last - int64(n) + 1, Count: n}, nil
}

func dial(t *testing.T, targets string, opts ...DialOption) *Client {
	t.Helper()
	client, err := Dial(t.Context(), targets, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

func mustNext(t *testing.T, o Oracle) Timestamp {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ts, err := o.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return ts
}

// waiting is how many callers wait in the batch that is forming.
func (q *batcher) waiting() int {
	n := 0
	for i := range q.shards {
		s := &q.shards[i]
		s.mu.Lock()
		n += len(s.full) * q.full
		if p := s.forming.Load(); p != nil {
			n += int(p.joined.Load())
		}
		s.mu.Unlock()
	}
	return n
}

// everyCase tells whether a test computes as long as it is worth, as it does for
// `.ci/run`.
func everyCase() bool { return os.Getenv("PERCOLATOR_TEST_EVERY_CASE") == "1" }

// eventually waits until f is true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	pause := 100 * time.Microsecond
	for deadline := time.Now().Add(10 * time.Second); !f(); pause = min(pause+pause/10, 5*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
		time.Sleep(pause)
	}
}

// gate is an oracle whose calls a test lets through one at a time.
type gate struct {
	counter
	arrived chan uint32
	release chan struct{}
}

func newGate() *gate {
	return &gate{arrived: make(chan uint32, 64), release: make(chan struct{}, 64)}
}

func (g *gate) next(ctx context.Context, n uint32) (*tsopb.NextResponse, error) {
	g.arrived <- n
	select {
	case <-g.release:
		return g.counter.next(ctx, n)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// One request is in flight; callers that arrive in the meantime share the next one.
func TestClientBatches(t *testing.T) {
	t.Parallel()
	g := newGate()
	server := startScripted(t, g.next)
	g.release <- struct{}{} // Dial's
	client := dial(t, server.address, WithCallTimeout(10*time.Second))
	if n := <-g.arrived; n != 1 {
		t.Fatalf("Dial asked for %d timestamps", n)
	}

	const callers = 500
	results := make(chan Timestamp, callers+1)
	call := func() { results <- mustNext(t, client) }
	go call()
	if n := <-g.arrived; n != 1 {
		t.Fatalf("the first caller's request is for %d", n)
	}
	for range callers {
		go call()
	}
	eventually(t, "all callers wait", func() bool { return client.batch.waiting() == callers })
	if calls := server.calls.Load(); calls != 2 {
		t.Fatalf("%d requests while one was in flight", calls-1)
	}
	g.release <- struct{}{}
	g.release <- struct{}{}
	if n := <-g.arrived; n != callers {
		t.Errorf("the next request is for %d, want %d", n, callers)
	}
	seen := map[Timestamp]bool{}
	for range callers + 1 {
		ts := <-results
		if ts < 2 || ts > callers+2 || seen[ts] {
			t.Fatalf("timestamp %d is out of range or a duplicate", ts)
		}
		seen[ts] = true
	}
	if calls := server.calls.Load(); calls != 3 {
		t.Errorf("%d requests, want 3", calls)
	}
}

// The client asks for a timestamp after its caller: one that arrives during a call is not
// served by it.
func TestClientNeverServesACallThatCameLater(t *testing.T) {
	t.Parallel()
	g := newGate()
	server := startScripted(t, g.next)
	g.release <- struct{}{}
	client := dial(t, server.address, WithCallTimeout(10*time.Second))
	<-g.arrived

	results := make(chan Timestamp, 2)
	go func() { results <- mustNext(t, client) }()
	<-g.arrived
	// The server's present is now 1,000; only a request that is sent later sees it.
	late := make(chan Timestamp, 1)
	go func() { late <- mustNext(t, client) }()
	eventually(t, "the second caller waits", func() bool { return client.batch.waiting() == 1 })
	g.release <- struct{}{}
	if ts := <-results; ts != 2 {
		t.Errorf("the first caller got %d", ts)
	}
	<-g.arrived
	g.last.Store(1000)
	g.release <- struct{}{}
	if ts := <-late; ts != 1001 {
		t.Errorf("the second caller got %d, want one from its own request", ts)
	}
}

func TestClientCancellationAffectsNobodyElse(t *testing.T) {
	t.Parallel()
	g := newGate()
	server := startScripted(t, g.next)
	g.release <- struct{}{}
	client := dial(t, server.address, WithCallTimeout(10*time.Second))
	<-g.arrived

	inFlight, cancelInFlight := context.WithCancel(t.Context())
	forming, cancelForming := context.WithCancel(t.Context())
	cancelled := make(chan error, 2)
	ask := func(ctx context.Context) {
		_, err := client.Next(ctx)
		cancelled <- err
	}
	served := make(chan Timestamp, 2)
	go ask(inFlight) // alone in the request in flight
	<-g.arrived
	go ask(forming)
	eventually(t, "one waits", func() bool { return client.batch.waiting() == 1 })
	for range 2 {
		go func() { served <- mustNext(t, client) }()
	}
	eventually(t, "three wait", func() bool { return client.batch.waiting() == 3 })

	cancelInFlight()
	cancelForming()
	for range 2 {
		if err := <-cancelled; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), server.address) {
			t.Errorf("a cancelled caller got %v", err)
		}
	}
	g.release <- struct{}{}
	if n := <-g.arrived; n != 3 {
		t.Errorf("the next request is for %d, want 3", n)
	}
	g.release <- struct{}{}
	if a, b := <-served, <-served; a == b || a < 3 || a > 5 || b < 3 || b > 5 {
		t.Errorf("the others got %d and %d", a, b)
	}
}

// A server that does not answer is given up, and asked again while the caller waits.
func TestClientDeadlines(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var stuck *scripted
	stuck = startScripted(t, func(call context.Context, _ uint32) (*tsopb.NextResponse, error) {
		if _, ok := call.Deadline(); !ok {
			t.Error("a call without a deadline")
		}
		if stuck.calls.Load() == 3 {
			cancel()
		}
		<-call.Done()
		return nil, call.Err()
	})
	_, err := Dial(ctx, stuck.address, WithCallTimeout(20*time.Millisecond))
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), stuck.address) {
		t.Errorf("Dial returned %v", err)
	}
}

func TestClientClose(t *testing.T) {
	t.Parallel()
	g := newGate()
	server := startScripted(t, g.next)
	g.release <- struct{}{}
	client, err := Dial(t.Context(), server.address)
	if err != nil {
		t.Fatal(err)
	}
	<-g.arrived
	results := make(chan error, 2)
	for i := range 2 { // one in flight, one waiting
		go func() {
			_, err := client.Next(context.Background())
			results <- err
		}()
		if i == 0 {
			<-g.arrived
		}
	}
	eventually(t, "one waits", func() bool { return client.batch.waiting() == 1 })
	for range 2 {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := <-results; !errors.Is(err, ErrClosed) {
			t.Errorf("a waiting caller got %v", err)
		}
	}
	if _, err := client.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestClientContextThatHasEnded(t *testing.T) {
	t.Parallel()
	var c counter
	server := startScripted(t, c.next)
	client := dial(t, server.address)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if calls := server.calls.Load(); calls != 1 {
		t.Errorf("%d calls, want Dial's only", calls)
	}
}

// A batch holds MaxBatch callers at most; more form another one. Every caller of a
// batch has a timestamp of its own.
func TestBatcherBounds(t *testing.T) {
	t.Parallel()
	type caller struct {
		*part
		position int
	}
	q := newBatcher()
	var callers []caller
	for range 2*MaxBatch + 1 {
		p, position, err := q.join(1)
		if err != nil {
			t.Fatal(err)
		}
		callers = append(callers, caller{p, position})
	}
	next := Timestamp(1)
	for _, n := q.take(); n > 0; _, n = q.take() {
		if n > MaxBatch {
			t.Errorf("a batch has %d callers, more than %d", n, MaxBatch)
		}
		q.answer(next, nil)
		next += Timestamp(n)
	}
	if int(next)-1 != len(callers) {
		t.Fatalf("%d timestamps for %d callers", next-1, len(callers))
	}
	seen := make([]bool, len(callers)+1)
	for _, c := range callers {
		if err := c.wait(t.Context(), c.position); err != nil {
			t.Fatal(err)
		}
		ts := int(c.first) + c.position
		if ts < 1 || ts > len(callers) || seen[ts] {
			t.Fatalf("timestamp %d is out of range or a duplicate", ts)
		}
		seen[ts] = true
	}
}

// Callers beyond the attentive ones, too, notice that their contexts end while an
// answer is late, in the batch in flight and in the one that is forming.
func TestBatcherLateAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newBatcher()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 64)
		crowd := func(ctx context.Context) {
			for range cap(ended) / 4 {
				go func() {
					p, position, err := q.join(1)
					if err == nil {
						err = p.wait(ctx, position)
					}
					if err == nil {
						err = p.err
					}
					ended <- err
				}()
			}
			synctest.Wait()
		}
		crowd(ctx)
		crowd(t.Context())
		if _, n := q.take(); n != cap(ended)/2 {
			t.Fatalf("%d callers", n)
		}
		crowd(ctx) // in the next batch
		crowd(t.Context())
		cancel()
		time.Sleep(2 * gracePeriod) // in the bubble's time
		synctest.Wait()
		if n := len(ended); n != cap(ended)/2 {
			t.Errorf("%d callers noticed the end of their contexts, want %d", n, cap(ended)/2)
		}
		for len(ended) > 0 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		}
		q.answer(1, nil)
		if _, n := q.take(); n != cap(ended)/2 {
			t.Errorf("%d callers in the next batch", n)
		}
		q.answer(1000, nil)
		synctest.Wait()
		if n := len(ended); n != cap(ended)/2 {
			t.Errorf("%d callers were answered, want %d", n, cap(ended)/2)
		}
		for len(ended) > 0 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// The way of a timestamp through the client must not allocate per caller.
func TestClientAllocations(t *testing.T) {
	q := newBatcher()
	perCaller := testing.AllocsPerRun(10, func() {
		for range 1000 {
			if _, _, err := q.join(1); err != nil {
				t.Fatal(err)
			}
		}
		q.take()
		q.answer(1, nil)
	})
	if perCaller > 10 {
		t.Errorf("%v allocations for 1,000 callers", perCaller)
	}
}

// freeAddress returns a loopback address on which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
