package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/gopercolator/percolator/internal/engine/telemetry"
)

// Many requests that Bigtable asks at once to come again in 50 ms wait for about that, and not as
// if each had been asked after the others: the pause grows with rounds, and not with requests.
func TestManyAreToldAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, v := newServices(t, 1, time.Millisecond, time.Millisecond)
		one := &connection{conns: p}
		s := New(t.Context(), &google{one, one}, &telemetry.Counters{})
		defer s.Stop()
		s.Listen(slog.New(slog.DiscardHandler))
		refuse := refuseFor(time.Minute, codes.ResourceExhausted, 50*time.Millisecond)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				a, err := s.admit(t.Context(), "t", 1)
				if err != nil {
					t.Error(err)
					return
				}
				_ = p.unary(t.Context(), btpb.Bigtable_CheckAndMutateRow_FullMethodName, &btpb.CheckAndMutateRowRequest{TableName: "projects/p/instances/i/tables/t"}, nil, v[0].cc,
					func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
						time.Sleep(5 * time.Millisecond)
						return refuse()
					})
				a.leave(errors.New("as Google's client has it, which hides the delay"))
			})
		}
		all.Wait()
		started := time.Now()
		a, err := s.admit(t.Context(), "t", 1)
		if err != nil || time.Since(started) > 100*time.Millisecond {
			t.Errorf("the next request goes %v later: %v", time.Since(started), err)
		}
		a.leave(nil)
	})
}
