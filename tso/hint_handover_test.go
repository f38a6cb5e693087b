package tso

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso/coordination"
)

func mustHand(t *testing.T, h coordination.Handover, hints []coordination.Hint, want ...int) {
	t.Helper()
	taken, err := h.HandHints(t.Context(), hints)
	if err != nil || !slices.Equal(taken, want) {
		t.Fatalf("handing %v over: taken %v, %v; want %v", hints, taken, err, want)
	}
}

// Hints are handed to those who wait, as many as each has asked for, and the others are forgotten.
func TestHandHints(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := startLeader(t, NewMemoryStore(), ServerConfig{})
		u, v, w, x := coordination.Hint{Topic: 1, Data: "u"}, coordination.Hint{Topic: 1, Data: "v"}, coordination.Hint{Topic: 1, Data: "w"}, coordination.Hint{Topic: 2, Data: "x"}
		mustHand(t, a, []coordination.Hint{u, x}) // nobody has asked
		mustTakeHints(t, a, []uint64{1, 2}, 8, 0)
		mustHand(t, a, []coordination.Hint{u, x}) // nobody waits

		got := make(chan []coordination.Hint, 2)
		for range 2 {
			go func() {
				hints, err := a.TakeHints(t.Context(), []uint64{1}, 1, 20*time.Second)
				if err != nil {
					t.Error(err)
				}
				got <- hints
			}()
		}
		synctest.Wait()
		mustHand(t, a, []coordination.Hint{x, u, v, w}, 1, 2)
		if first, second := <-got, <-got; len(first) != 1 || len(second) != 1 || first[0] == second[0] {
			t.Errorf("taken %v and %v", first, second)
		}
		mustHand(t, a, []coordination.Hint{w})
		mustTakeHints(t, a, []uint64{1, 2}, 8, 0)

		// Who waits for two topics gets no more than it asked for, of both together.
		go func() {
			hints, _ := a.TakeHints(t.Context(), []uint64{1, 2}, 2, 20*time.Second)
			got <- hints
		}()
		synctest.Wait()
		mustHand(t, a, []coordination.Hint{u, x, v}, 0, 1)
		if hints := <-got; !slices.Equal(hints, []coordination.Hint{u, x}) {
			t.Errorf("took %v", hints)
		}

		// What was handed to a caller that has just gone is handed to another one.
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := a.TakeHints(ctx, []uint64{1}, 8, 20*time.Second)
			gone <- err
		}()
		synctest.Wait()
		go func() {
			hints, _ := a.TakeHints(t.Context(), []uint64{1}, 8, 20*time.Second)
			got <- hints
		}()
		synctest.Wait()
		table := a.liveness.current.Load().hints
		table.mu.Lock()
		first := table.topics[1].takers.Front().Value.(*hintTaker)
		first.given, first.bytes = []coordination.Hint{u}, 1
		table.mu.Unlock()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if hints := <-got; !slices.Equal(hints, []coordination.Hint{u}) {
			t.Errorf("took %v", hints)
		}
		if hints, bytes, _ := held(a); hints+bytes != 0 {
			t.Errorf("%d hints of %d bytes are left", hints, bytes)
		}
	})
}

// Over gRPC; and a server of a version before says that it hands nothing over.
func TestHandHintsOverGRPC(t *testing.T) {
	t.Parallel()
	server := startServing(t, NewMemoryStore(), ServerConfig{})
	worker, busy := dial(t, server.address), dial(t, server.address)
	mustNext(t, worker)
	mustNext(t, busy)
	taken := make(chan []coordination.Hint, 1)
	go func() {
		hints, err := worker.TakeHints(t.Context(), []uint64{7}, 2, maxHintWait)
		if err != nil {
			t.Error(err)
		}
		taken <- hints
	}()
	hints := []coordination.Hint{{Topic: 8, Data: "nobody's"}, {Topic: 7, Data: "a"}, {Topic: 7, Data: "b"}, {Topic: 7, Data: "c"}}
	for {
		at, err := busy.HandHints(t.Context(), hints)
		if err != nil {
			t.Fatal(err)
		}
		if len(at) > 0 {
			if !slices.Equal(at, []int{1, 2}) {
				t.Errorf("taken %v", at)
			}
			break
		}
	}
	if got := <-taken; !slices.Equal(got, hints[1:3]) {
		t.Errorf("took %v", got)
	}

	old := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, resp any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if method == "/percolator.tso.v1.Hints/HandHints" {
			return status.Error(codes.Unimplemented, "unknown method HandHints for service percolator.tso.v1.Hints")
		}
		return invoke(ctx, method, req, resp, conn, opts...)
	})
	c := dial(t, server.address, WithGRPCDialOptions(old))
	mustNext(t, c)
	if _, err := c.HandHints(t.Context(), hints); !errors.Is(err, ErrUnsupported) {
		t.Errorf("an old server: %v", err)
	}
}
