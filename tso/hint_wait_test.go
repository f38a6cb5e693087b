package tso

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	grpcpeer "google.golang.org/grpc/peer"
)

// from is the context of a call from an address.
func from(ctx context.Context, host string) context.Context {
	return grpcpeer.NewContext(ctx, &grpcpeer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(host), Port: 1}})
}

// Places in the queues of topics are bounded, for each peer and in all, and a call that ends gives
// back its own.
func TestHintPlacesAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := startLeader(t, NewMemoryStore(), ServerConfig{})
		table := a.liveness.current.Load().hints
		topics := make([]uint64, maxHintTopics)
		for i := range topics {
			topics[i] = uint64(i)
		}
		share := table.places.Each / maxHintTopics
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		results := make(chan error, 2*share)
		for range 2 * share {
			go func() {
				_, err := a.TakeHints(from(ctx, "192.0.2.1"), topics, 1, maxHintWait)
				results <- err
			}()
		}
		synctest.Wait()
		if len(results) != share {
			t.Fatalf("%d of %d calls were refused, want %d", len(results), 2*share, share)
		}
		for range share {
			if err := <-results; !errors.Is(err, ErrLimit) {
				t.Fatal(err)
			}
		}
		if n := table.topics[0].takers.Len(); n != share {
			t.Errorf("%d wait, want %d", n, share)
		}
		go func() { _, _ = a.TakeHints(from(ctx, "192.0.2.2"), topics, 1, maxHintWait) }()
		synctest.Wait()
		if n := table.topics[0].takers.Len(); n != share+1 {
			t.Errorf("%d wait, want %d: another peer has a share of its own", n, share+1)
		}
		cancel()
		synctest.Wait()
		for name, topic := range table.topics {
			if n := topic.takers.Len(); n != 0 {
				t.Fatalf("%d are left in topic %d", n, name)
			}
		}
		if table.places.Used() != 0 {
			t.Errorf("%d places are left", table.places.Used())
		}
	})
}

// A peer that asks for topics without end leaves room for those of others, until nobody wants them.
func TestHintTopicsAreShared(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := startLeader(t, NewMemoryStore(), ServerConfig{})
		table := a.liveness.current.Load().hints
		ask := func(host string, topic int) error {
			_, err := a.TakeHints(from(t.Context(), host), []uint64{uint64(topic)}, 1, 0)
			return err
		}
		for i := range maxTopics / 4 {
			if err := ask("192.0.2.1", i); err != nil {
				t.Fatal(err)
			}
		}
		if err := ask("192.0.2.1", maxTopics); !errors.Is(err, ErrLimit) {
			t.Errorf("above the share: %v", err)
		}
		if err := errors.Join(ask("192.0.2.1", 0), ask("192.0.2.2", maxTopics)); err != nil {
			t.Errorf("a topic that there is, and another peer's: %v", err)
		}
		time.Sleep(3 * hintInterest)
		if n := table.named.Used(); n != 0 {
			t.Errorf("%d topics are left", n)
		}
	})
}
