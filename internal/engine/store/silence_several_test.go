package store

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A NAT forgets several idle connections at once. The only request of a client, on one of them,
// does not depend on which of the others is asked.
func TestSilenceOfSeveralWithoutTraffic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const all = 6
		p, v := newServices(t, all, time.Millisecond, time.Millisecond)
		for _, v := range v {
			if err := p.read(t.Context(), v); err != nil {
				t.Fatal(err)
			}
		}
		for answers := range all { // the only one that does
			time.Sleep(time.Minute)
			for i, v := range v {
				if v.set(0, 0); i == answers {
					v.set(time.Millisecond, time.Millisecond)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			started := time.Now()
			if err := p.mutate(ctx, v[(answers+1)%all]); status.Code(err) != codes.Unavailable || time.Since(started) > 15*time.Second {
				t.Errorf("the only request of a client, where connection %d of %d answers: %v after %v", answers, all, err, time.Since(started))
			}
			cancel()
			for _, v := range v {
				v.set(time.Millisecond, time.Millisecond)
			}
		}
	})
}
