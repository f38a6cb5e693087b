package tso_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/testing/emulators"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/spannerstore"
)

// unreliable fails some of the calls to Spanner, of which it carries out half.
type unreliable struct {
	mu     sync.Mutex
	rand   *rand.Rand
	failed int
}

// whatFails are codes with which a call may fail whether or not it was carried out.
var whatFails = []codes.Code{codes.Unavailable, codes.Internal, codes.Unknown, codes.Aborted, codes.DeadlineExceeded, codes.ResourceExhausted}

// fate is how a call fails, if it does, and whether it is carried out.
func (u *unreliable) fate() (err error, done bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	code, done := whatFails[u.rand.IntN(len(whatFails))], u.rand.IntN(2) == 0
	if u.rand.IntN(4) > 0 {
		return nil, true
	}
	u.failed++
	return status.Error(code, "a fault of the test"), done
}

func (u *unreliable) options() []grpc.DialOption {
	unary := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		fails, done := u.fate()
		if done {
			if err := call(ctx, method, req, reply, cc, opts...); err != nil {
				return err
			}
		}
		return fails
	}
	stream := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if fails, _ := u.fate(); fails != nil {
			return nil, fails
		}
		return open(ctx, desc, cc, method, opts...)
	}
	return []grpc.DialOption{grpc.WithUnaryInterceptor(unary), grpc.WithStreamInterceptor(stream)}
}

// A swap that succeeds has stored its record, one that fails has stored it or not, and a store that
// has a record to itself is never told that somebody else has changed it.
func TestStoreSpannerUnderFaults(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	address := emulators.StartSpanner(t)
	db := createSpannerDatabase(t, address)
	sound := spannerstore.New(openSpanner(t, address, db), "faults")
	u := &unreliable{rand: rand.New(rand.NewPCG(1, 2))}
	u.failed = 0
	client := openSpanner(t, address, db, u.options()...)
	store := spannerstore.New(client, "faults")
	old, succeeded, failed := tso.State{}, 0, 0
	for range 60 {
		next := tso.First()
		if old != (tso.State{}) {
			next = tso.Successor(old)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		err := store.CompareAndSwap(ctx, old, next)
		cancel()
		stored := tso.Stored(t, sound)
		switch {
		case errors.Is(err, tso.ErrFenced):
			t.Fatalf("the record %d is said to be somebody else's", old.Version)
		case stored != old && stored != next:
			t.Fatalf("stored is %+v, neither %+v nor %+v", stored, old, next)
		case err == nil && stored != next:
			t.Fatalf("the record %d was not stored", next.Version)
		case err == nil:
			succeeded++
		default:
			failed++
		}
		old = stored
	}
	if u.failed < 20 || succeeded < 20 {
		t.Errorf("%d swaps succeeded and %d failed, with %d faults", succeeded, failed, u.failed)
	}
	t.Logf("%d swaps succeeded and %d failed, with %d faults", succeeded, failed, u.failed)
}
