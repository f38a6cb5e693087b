package store

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A client with few requests finds a silent connection, too: no other request happens to be
// answered meanwhile.
func TestSilenceWithoutTraffic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, v := newServices(t, 10, time.Millisecond, time.Millisecond)
		for _, v := range v {
			if err := p.read(t.Context(), v); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		v[0].set(0, 0)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		started := time.Now()
		if err := p.mutate(ctx, v[0]); status.Code(err) != codes.Unavailable || time.Since(started) > 15*time.Second {
			t.Errorf("the only request of a client, on a silent connection of ten: %v after %v", err, time.Since(started))
		}
	})
}

// Nothing asks a connection once the client has closed, even if the connection stays open because
// the caller made it.
func TestSilenceEndsWithTheClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, v := newServices(t, 2, time.Millisecond, time.Millisecond)
		var end context.CancelFunc
		p.life, end = context.WithCancel(t.Context())
		defer end()
		stop := p.traffic(t.Context(), 100*time.Millisecond, v[1])
		v[0].set(0, 0)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		_ = p.mutate(ctx, v[0])
		cancel()
		stop()
		if !p.conn(v[0].cc).isSilent() {
			t.Fatal("not silent")
		}
		end()
		time.Sleep(time.Hour)
		c := p.conn(v[0].cc)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.watched {
			t.Error("an hour after the client closed, the connection is still asked every 2 s")
		}
	})
}
