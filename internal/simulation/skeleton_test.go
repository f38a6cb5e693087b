package simulation

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/tso"
)

func TestOracleInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		store := tso.NewMemoryStore()
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for _, a := range []string{"127.0.0.1:1001", "127.0.0.1:1002"} {
			s, err := tso.NewServer(store, tso.ServerConfig{})
			if err != nil {
				t.Fatal(err)
			}
			l, err := n.listen(a)
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				if err := s.Serve(ctx, l); err != nil {
					t.Error(err)
				}
			})
		}
		c, err := tso.Dial(ctx, "127.0.0.1:1001,127.0.0.1:1002", tso.WithGRPCDialOptions(
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return n.dial(ctx, address) })))
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.OpenSession()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		t.Log(s.ID())
		const N = 20000
		for range N {
			if _, err := c.Next(ctx); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
		cancel()
		wg.Wait()
	})
}
