package tso

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso/internal/record"
	"github.com/gopercolator/percolator/tso/tsopb"
)

// follower answers that address leads.
func follower(address string) func(context.Context, uint32) (*tsopb.NextResponse, error) {
	return func(context.Context, uint32) (*tsopb.NextResponse, error) {
		return nil, toStatus(&NotLeaderError{Leader: address})
	}
}

// A caller without a deadline gets an error too.
func TestClientGivesUp(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	var c counter
	server := startScripted(t, func(ctx context.Context, n uint32) (*tsopb.NextResponse, error) {
		if down.Load() {
			return nil, status.Error(codes.Unavailable, "no window")
		}
		return c.next(ctx, n)
	})
	client := dial(t, server.address, WithTimeout(time.Second))
	down.Store(true)
	if _, err := client.Next(context.Background()); !errors.Is(err, ErrUnavailable) ||
		!strings.Contains(err.Error(), "no window") || !strings.Contains(err.Error(), server.address) {
		t.Errorf("got %v", err)
	}
	down.Store(false)
	mustNext(t, client)
}

func TestDialNamesTheEndpoint(t *testing.T) {
	t.Parallel()
	nobody := freeAddress(t)
	_, err := Dial(t.Context(), nobody, WithTimeout(time.Second))
	if !errors.Is(err, ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err == nil || !strings.Contains(err.Error(), nobody) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("the error does not say what is wrong: %v", err)
	}
}

func TestDialRefusesBadTargets(t *testing.T) {
	t.Parallel()
	for _, targets := range []string{"", " , ", "localhost", "localhost:0", "localhost:port", ":7070", "0.0.0.0:7070",
		strings.Repeat("a:1,", maxTargets+1), strings.Repeat("a", record.MaxAddressBytes) + ":1"} {
		if _, err := Dial(t.Context(), targets); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%.40q: %v", targets, err)
		}
	}
}

func TestClientFollowsTheLeader(t *testing.T) {
	t.Parallel()
	var c counter
	leader := startScripted(t, c.next)
	standby := startScripted(t, follower(leader.address))
	client := dial(t, standby.address)
	for range 10 {
		mustNext(t, client)
	}
	if calls := standby.calls.Load(); calls != 1 {
		t.Errorf("the follower was asked %d times", calls)
	}
	if calls := leader.calls.Load(); calls != 11 {
		t.Errorf("the leader was asked %d times", calls)
	}
}

func TestClientFindsAServerThatLives(t *testing.T) {
	t.Parallel()
	var c counter
	leader := startScripted(t, c.next)
	client := dial(t, freeAddress(t)+", "+freeAddress(t)+","+leader.address)
	mustNext(t, client)
}

// Two followers that name each other, or a leader that is gone, do not occupy a
// client.
func TestClientDoesNotRunInCircles(t *testing.T) {
	t.Parallel()
	var c counter
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var a, b *scripted
	var elected atomic.Bool
	addresses := make(chan string, 1)
	a = startScripted(t, func(call context.Context, n uint32) (*tsopb.NextResponse, error) {
		if a.calls.Load() == 20 {
			cancel()
		}
		address := <-addresses
		addresses <- address
		return follower(address)(call, n)
	})
	b = startScripted(t, func(call context.Context, n uint32) (*tsopb.NextResponse, error) {
		if elected.Load() {
			return c.next(call, n)
		}
		return follower(a.address)(call, n)
	})
	addresses <- b.address
	started := time.Now()
	if _, err := Dial(ctx, a.address); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), ErrNotLeader.Error()) {
		t.Errorf("got %v", err)
	}
	// The pauses double every time, from 5 ms at least.
	if took := time.Since(started); took < 50*time.Millisecond {
		t.Errorf("20 rounds in %v", took)
	}
	elected.Store(true)
	mustNext(t, dial(t, a.address))
}

func TestClientSurvivesARestart(t *testing.T) {
	t.Parallel()
	var c counter
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	start := func(l net.Listener) *grpc.Server {
		rpc := grpc.NewServer()
		tsopb.RegisterOracleServer(rpc, &scripted{next: c.next})
		go func() { _ = rpc.Serve(l) }()
		return rpc
	}
	rpc := start(l)
	client := dial(t, address)
	before := mustNext(t, client)
	rpc.Stop()

	got := make(chan Timestamp, 1)
	go func() { got <- mustNext(t, client) }()
	eventually(t, "the client has noticed", func() bool { return client.lastFailure() != nil })
	l, err = net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(start(l).Stop)
	if after := <-got; after <= before {
		t.Errorf("%d after %d", after, before)
	}
}

// A server that answers nonsense is not believed.
func TestClientDistrustsAnswers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(n uint32) *tsopb.NextResponse{
		"went back":  func(n uint32) *tsopb.NextResponse { return &tsopb.NextResponse{First: 1, Count: n} },
		"same again": func(n uint32) *tsopb.NextResponse { return &tsopb.NextResponse{First: 1000, Count: n} },
		"zero":       func(n uint32) *tsopb.NextResponse { return &tsopb.NextResponse{First: 0, Count: n} },
		"negative":   func(n uint32) *tsopb.NextResponse { return &tsopb.NextResponse{First: -5, Count: n} },
		"beyond the last": func(n uint32) *tsopb.NextResponse {
			return &tsopb.NextResponse{First: int64(MaxTimestamp) + 1, Count: n}
		},
		"overflow": func(n uint32) *tsopb.NextResponse { return &tsopb.NextResponse{First: 1<<63 - 1, Count: n} },
		"fewer":    func(n uint32) *tsopb.NextResponse { return &tsopb.NextResponse{First: 2000, Count: n - 1} },
		"more":     func(n uint32) *tsopb.NextResponse { return &tsopb.NextResponse{First: 2000, Count: n + 1} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var lies atomic.Int64
			lies.Store(-1) // Dial's answer is none
			server := startScripted(t, func(_ context.Context, n uint32) (*tsopb.NextResponse, error) {
				switch lies.Add(1) {
				case 0:
					return &tsopb.NextResponse{First: 1000, Count: n}, nil
				case 3:
					cancel()
				}
				return answer(n), nil
			})
			client := dial(t, server.address)
			if ts, err := client.Next(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "answered") {
				t.Errorf("got %d, %v", ts, err)
			}
		})
	}
}

// A leader that learns from its client that it has lost what it knew hands out nothing
// to it.
func TestClientOfAnOracleThatLostItsRecord(t *testing.T) {
	t.Parallel()
	before := startServing(t, NewMemoryStore(), ServerConfig{Now: func() time.Time { return time.Now().Add(time.Hour) }})
	client := dial(t, before.address)
	last := mustNext(t, client)
	before.stop()
	<-before.Server.ended
	if err := <-before.ended; err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", before.address)
	if err != nil {
		t.Fatal(err)
	}
	store := NewMemoryStore() // as after the loss of everything
	server, err := NewServer(store, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	var ts Timestamp
	eventually(t, "the new server answers", func() bool {
		ts, err = client.Next(t.Context())
		return err == nil || errors.Is(err, ErrCorrupt)
	})
	if err == nil {
		t.Fatalf("got %d after %d", ts, last)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
