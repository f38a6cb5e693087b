package tso

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso/tsopb"
)

// pair is two servers of an oracle in a bubble: a leads, b stands by. Clients reach them without a
// network.
type pair struct {
	*testing.T
	a, b   *runner
	frozen *faultyStore // a's
	cutOff atomic.Bool  // b does not answer
	calls  atomic.Int64
}

func startPair(t *testing.T) *pair {
	t.Helper()
	memory := NewMemoryStore()
	p := &pair{T: t, frozen: newFaultyStore(memory)}
	t.Cleanup(func() {
		p.frozen.heal()
		time.Sleep(2 * time.Second) // what hangs ends
	})
	p.a = startServer(t, p.frozen, ServerConfig{Advertise: "127.0.0.1:1"})
	synctest.Wait()
	p.b = startServer(t, memory, ServerConfig{Advertise: "127.0.0.1:2"})
	synctest.Wait()
	return p
}

// client returns a client in the bubble. It is closed with the test.
func (p *pair) client() *Client {
	p.Helper()
	servers := map[string]grpc.ClientConnInterface{"127.0.0.1:1": p.a.Local(), "127.0.0.1:2": p.b.Local()}
	call := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
		p.calls.Add(1)
		if p.cutOff.Load() && cc.Target() == "127.0.0.1:2" {
			return status.Error(codes.Unavailable, "cut off")
		}
		return servers[cc.Target()].Invoke(ctx, method, req, reply)
	}
	return dial(p.T, "127.0.0.1:1,127.0.0.1:2", WithGRPCDialOptions(grpc.WithUnaryInterceptor(call)))
}

// suspend lets b lead while a's machine stands still for d, which no clock of a shows, and returns
// what b has served.
func (p *pair) suspend(d time.Duration) (served Timestamp) {
	p.Helper()
	p.frozen.freeze()
	time.Sleep(d)
	served = p.b.mustTake(p.T, 1)
	for _, c := range []*atomic.Int64{&p.a.clock.wall, &p.a.clock.mono, &p.a.clock.boot} {
		c.Add(-int64(d))
	}
	return served
}

// A leader whose machine was suspended goes on in the past, and no clock of it shows that. Its
// client refuses its answer, and asks the others.
func TestClientRefusesThePast(t *testing.T) {
	for name, heal := range map[string]bool{"and the store is cut off": false, "and the store answers": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := startPair(t)
				client := p.client()
				mustNext(t, client)
				served := p.suspend(5 * time.Second)
				if late := p.a.mustTake(t, 1); late > served {
					t.Fatalf("the former leader is at %d, the successor at %d", late, served)
				}
				if heal {
					p.frozen.heal()
				}
				if got := mustNext(t, client); got <= served {
					t.Errorf("got %d, although the successor has served %d", got, served)
				}
			})
		})
	}
}

// Without a way to the successor there is no timestamp.
func TestClientRefusesThePastAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := startPair(t)
		client := p.client()
		mustNext(t, client)
		served := p.suspend(5 * time.Second)
		p.cutOff.Store(true)
		if got, err := client.Next(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("got %d (%v), although the successor has served %d", got, err, served)
		}
		p.cutOff.Store(false)
		if got := mustNext(t, client); got <= served {
			t.Errorf("got %d, although the successor has served %d", got, served)
		}
	})
}

// A clock that was fast is set right while a client has nothing to ask. The client asks once more,
// and the leader writes its record once more.
func TestClientBelievesWhatIsConfirmed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := startPair(t)
		p.a.clock.wall.Store(int64(10 * time.Second))
		client := p.client()
		last := mustNext(t, client)
		p.a.clock.wall.Store(0)
		time.Sleep(time.Hour - 100*time.Millisecond) // not when it is renewed anyway
		calls, writes := p.calls.Load(), p.frozen.swaps.Load()
		started := time.Now()
		if got, want := mustNext(t, client), p.a.elector.clock.now(); got <= last || want.Sub(got) > time.Second {
			t.Errorf("got %d after %d, and the clock shows %d", got, last, want)
		}
		// b names a, which is asked for the third time.
		if calls, writes := p.calls.Load()-calls, p.frozen.swaps.Load()-writes; calls > 3 || writes != 1 || time.Since(started) > 100*time.Millisecond {
			t.Errorf("%d calls, %d writes, %v", calls, writes, time.Since(started))
		}
		calls = p.calls.Load()
		mustNext(t, client)
		time.Sleep(10 * time.Second)
		mustNext(t, client)
		if calls := p.calls.Load() - calls; calls != 2 {
			t.Errorf("%d calls for two timestamps", calls)
		}
	})
}

// While timestamps are far ahead of the clock they go on slower than time: answers say so, and
// cause no doubt. Neither do those that follow when the clock has caught up.
func TestClientOfAnOracleAhead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := startPair(t)
		p.a.clock.wall.Store(int64(time.Minute))
		client := p.client()
		synctest.Wait()
		p.a.clock.wall.Store(0)
		mustNext(t, client)
		calls := p.calls.Load()
		const asked = 15
		for range asked {
			time.Sleep(10 * time.Second)
			mustNext(t, client)
		}
		if calls := p.calls.Load() - calls; calls != asked {
			t.Errorf("%d calls for %d timestamps", calls, asked)
		}
	})
}

// A former leader that has not learned of its successor does not take what a client has received
// from that for a loss.
func TestServerDoubtsItselfFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := startPair(t)
		served := p.suspend(5 * time.Second)
		p.frozen.heal()
		_, err := tsopb.NewOracleClient(p.a.Local()).Next(t.Context(), &tsopb.NextRequest{Count: 1, After: int64(served)})
		if code := status.Code(err); code != codes.FailedPrecondition && code != codes.Unavailable {
			t.Errorf("got %v", err)
		}
	})
}

// A lease is confirmed by a write that is sent after the call, not by one that is in flight.
func TestLeaseIsConfirmedByALaterWrite(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newFaultyStore(NewMemoryStore())
		a := startServer(t, store, ServerConfig{})
		synctest.Wait()
		store.failSwaps(answerLate)
		time.Sleep(time.Second + lateBy/2) // a renewal is in flight
		before := store.swaps.Load()
		started := time.Now()
		if err := a.confirm(t.Context()); err != nil {
			t.Fatal(err)
		}
		if writes, took := store.swaps.Load()-before, time.Since(started); writes != 1 || took != lateBy/2+lateBy {
			t.Errorf("confirmed after %v and %d writes", took, writes)
		}
		store.failSwaps(refused)
		if err := a.confirm(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("without the store: %v", err)
		}
		store.heal()
	})
}

func TestExpectedAnswers(t *testing.T) {
	t.Parallel()
	const limit = maxAhead + answerTolerance
	start := At(noon)
	for name, c := range map[string]struct {
		first        Timestamp
		ahead        bool // this answer
		wasAhead     bool // and the one before
		after        time.Duration
		fine, doubts bool
	}{
		"the next":                  {first: start + 10, fine: true},
		"the same":                  {first: start + 9},
		"with the time":             {first: start.Add(time.Hour), after: time.Hour, fine: true},
		"behind by the limit":       {first: start.Add(time.Hour-limit) + 9, after: time.Hour, fine: true},
		"behind by more":            {first: start.Add(time.Hour-limit) + 8, after: time.Hour, doubts: true},
		"behind and ahead":          {first: start + 10, ahead: true, after: time.Hour, fine: true},
		"behind one that was ahead": {first: start + 10, wasAhead: true, after: time.Hour, fine: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var e expected
			if err := e.check(start, 10, c.wasAhead, time.Hour); err != nil {
				t.Fatal(err)
			}
			e.accept(start, 10, c.wasAhead, time.Hour)
			if err := e.check(c.first, 1, c.ahead, time.Hour+c.after); (err == nil) != c.fine || e.doubt != c.doubts {
				t.Errorf("got %v, doubt: %v", err, e.doubt)
			}
			if c.doubts { // the same answer, confirmed
				if err := e.check(c.first, 1, false, time.Hour+c.after); err != nil {
					t.Errorf("confirmed: %v", err)
				}
				if e.accept(c.first, 1, false, time.Hour+c.after); e.doubt {
					t.Error("the doubt remains")
				}
			}
		})
	}
}
