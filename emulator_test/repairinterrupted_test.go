package emulator_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// dying ends a process at one of its requests that change something: no later one is sent.
type dying struct {
	at      int64 // counted from 1; 0: never
	applied bool  // it is applied, and nobody learns
	sent    atomic.Int64
}

var errDead = status.Error(codes.PermissionDenied, "the process is dead")

func (d *dying) options() []option.ClientOption {
	return []option.ClientOption{
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if !strings.HasSuffix(method, "/CheckAndMutateRow") && !strings.HasSuffix(method, "/MutateRow") {
				return invoke(ctx, method, req, reply, cc, opts...)
			}
			n := d.sent.Add(1)
			if d.at != 0 && (n > d.at || n == d.at && !d.applied) {
				return errDead
			}
			if err := invoke(ctx, method, req, reply, cc, opts...); err != nil || n != d.at {
				return err
			}
			return errDead
		})),
		option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			if !strings.HasSuffix(method, "/MutateRows") {
				return open(ctx, desc, cc, method, opts...)
			}
			n := d.sent.Add(1)
			if d.at != 0 && (n > d.at || n == d.at && !d.applied) {
				return nil, errDead
			}
			s, err := open(ctx, desc, cc, method, opts...)
			if n == d.at && err == nil {
				s = &unanswered{s}
			}
			return s, err
		})),
	}
}

// unanswered is a stream whose answer, which has come, nobody sees.
type unanswered struct{ grpc.ClientStream }

func (s *unanswered) RecvMsg(any) error {
	_ = s.ClientStream.RecvMsg(new(btpb.MutateRowsResponse))
	return errDead
}

// TestRepairInterrupted ends a repair at each of its requests, before or after it is applied. The
// next one makes of the cut what an uninterrupted one makes.
func TestRepairInterrupted(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testRepairInterrupted)
}

func testRepairInterrupted(t *testing.T) {
	s := soakForCuts(t, rand.Uint64())
	t.Logf("seed %d", s.cfg.Seed)
	opts := cutStores(t)
	cut := s.recorder.pickCut(s.random())
	s.fence(cut)
	repair := func(instance string, d *dying) error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		c := s.open(ctx, t, instance, append(d.options(), opts...))
		defer c.Close()
		r, err := admin.New(c).Repair(ctx, model.RepairOptions{To: s.to})
		if err == nil && r.Found+r.Audited > 0 {
			err = fmt.Errorf("%+v", r)
		}
		return err
	}
	whole := &dying{}
	writeCut(t.Context(), t, "whole", s.schema, cut, opts)
	if err := repair("whole", whole); err != nil {
		t.Fatal(err)
	}
	want := dump(t.Context(), t, rawStore(t.Context(), t, cutProject, "whole", opts), s.tables)
	var interrupted atomic.Int64
	var runs sync.WaitGroup
	turns := make(chan struct{}, 8)
	for at := range whole.sent.Load() {
		for _, applied := range []bool{false, true} {
			if !fixture.Sampled(fmt.Sprint(at, applied)) {
				continue
			}
			runs.Go(func() {
				turns <- struct{}{}
				defer func() { <-turns }()
				instance := fmt.Sprintf("at-%d-%v", at+1, applied)
				writeCut(t.Context(), t, instance, s.schema, cut, opts)
				if err := repair(instance, &dying{at: at + 1, applied: applied}); err == nil {
					if !applied || at+1 < whole.sent.Load() {
						t.Logf("%s: the repair sent fewer requests", instance)
					}
				} else if err := repair(instance, &dying{}); err != nil {
					t.Errorf("%s: %v", instance, err)
				}
				interrupted.Add(1)
				got := dump(t.Context(), t, rawStore(t.Context(), t, cutProject, instance, opts), s.tables)
				if !maps.EqualFunc(got, want, func(a, b []cutItem) bool { return slices.Equal(a, b) }) {
					t.Errorf("%s: another store than that of a repair that was not interrupted", instance)
				}
			})
		}
	}
	runs.Wait()
	t.Logf("%d interruptions at %d requests", interrupted.Load(), whole.sent.Load())
}
