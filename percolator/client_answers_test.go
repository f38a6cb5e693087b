package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A transaction that was started before Close must not hang in Commit: its requests can only fail.
func TestCommitAfterCloseIsErrClosed(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, cancel := context.WithTimeout(fixture.Context(t), 3*time.Second)
	defer cancel()
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, tx.Set(fixture.Cell("r", "c"), []byte("v")))
	fixture.Must(t, env.Client.Close())
	_, err := tx.Commit(ctx)
	fixture.WantErr(t, err, percolator.ErrClosed)
	if ctx.Err() != nil {
		t.Error("Commit waited for the context")
	}
}

// The first commit request is delayed in the network and the second one is refused for good. The
// primary still shows our lock, so the transaction is rolled back – but the delayed request lands
// first. It has committed, and Commit must not report an abort (I17).
func TestRefusedCommitBehindDelayedOneIsDecidedByThePrimary(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	var mu sync.Mutex
	commits := 0
	var late func() error
	intercept := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		mu.Lock()
		defer mu.Unlock()
		m, ok := req.(*btpb.CheckAndMutateRowRequest)
		switch {
		case ok && fixture.Sets(m.TrueMutations, "write"):
			commits++
			if commits == 1 {
				late = func() error {
					return invoke(context.WithoutCancel(ctx), method, req, new(btpb.CheckAndMutateRowResponse), cc)
				}
				return status.Error(codes.Unavailable, "connection lost")
			}
			return status.Error(codes.PermissionDenied, "access was withdrawn")
		case ok && fixture.Sets(m.FalseMutations, "write") && late != nil: // the roll back: the delayed commit overtakes it
			if err := late(); err != nil {
				t.Error(err)
			}
			late = nil
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	c, err := percolator.NewClient(ctx, percolator.Config{Project: env.Project, Instance: env.Instance, Oracle: env.Oracle},
		append(env.Options(), option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(intercept)))...)
	fixture.Must(t, err)
	defer c.Close()
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, tx.Set(fixture.Cell("a", "c"), []byte("v")))
	fixture.Must(t, tx.Set(fixture.Cell("b", "c"), []byte("v")))
	_, err = tx.Commit(ctx)
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("a", "c"), "v") // it has committed
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("b", "c"), "v")
	if err != nil && !errors.Is(err, percolator.ErrOutcomeUnknown) {
		t.Errorf("the transaction has committed, and Commit reports a definite abort: %v", err)
	}
}

// A column that was only prefetched must not decide whether the read of another succeeds.
func TestCorruptPrefetchedColumnDoesNotFailTheRead(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	for i := range 20 {
		fixture.Must(t, tx.Set(fixture.Cell(fixture.Key(i), "a"), []byte("a")))
		fixture.Must(t, tx.Set(fixture.Cell(fixture.Key(i), "b"), []byte("b")))
	}
	fixture.MustCommit(t, ctx, tx)
	fixture.Must(t, env.Client.Flush(ctx))
	fixture.Plant(t, ctx, env, "t", fixture.Key(19), "lock", "b", 1000, "not a lock")
	for i := range 20 {
		s, err := env.Client.Snapshot(ctx)
		fixture.Must(t, err)
		fixture.WantValue(t, ctx, s, fixture.Cell(fixture.Key(i), "a"), "a")
		if i < 19 {
			fixture.WantValue(t, ctx, s, fixture.Cell(fixture.Key(i), "b"), "b")
		} else {
			_, err := s.Get(ctx, fixture.Cell(fixture.Key(i), "b"))
			fixture.WantErr(t, err, percolator.ErrCorrupt)
		}
	}
}

// Transactions race with Close: each gets an answer at once, and nothing is used after it was
// closed (run with -race).
func TestCloseDuringCommits(t *testing.T) {
	t.Parallel()
	for range 5 {
		env := fixture.NewEnv(t)
		ctx, cancel := context.WithTimeout(fixture.Context(t), 10*time.Second)
		c := env.NewClient()
		var wg sync.WaitGroup
		started := make(chan struct{}, 1000)
		for g := range 16 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for i := 0; ; i++ {
					_, err := c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
						for j := range 3 {
							if err := tx.Set(fixture.Cell(fmt.Sprint(g, i, j), "c"), []byte("v")); err != nil {
								return err
							}
						}
						return nil
					})
					if err != nil {
						if !errors.Is(err, percolator.ErrClosed) && !errors.Is(err, percolator.ErrOutcomeUnknown) {
							t.Errorf("during Close: %v", err)
						}
						return
					}
					select {
					case started <- struct{}{}:
					default:
					}
				}
			}()
		}
		for range 50 {
			<-started
		}
		fixture.Must(t, c.Close())
		wg.Wait()
		if ctx.Err() != nil {
			t.Error("a transaction hung until its context ended")
		}
		cancel()
	}
}

// An outcome that is unknown is not an abort, in the counters either.
func TestUnknownOutcomeIsNotCountedAsAbort(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, cancel := context.WithCancel(fixture.Context(t))
	defer cancel()
	hold := percolatortest.NewHold()
	env.FaultsOf(env.Client).Handle(fixture.AtMost(1, fixture.IsCommit, hold))
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, tx.Set(fixture.Cell("r", "c"), []byte("v")))
	done := make(chan error)
	go func() {
		_, err := tx.Commit(ctx)
		done <- err
	}()
	hold.Wait(t, 1)
	cancel()
	fixture.WantErr(t, <-done, percolator.ErrOutcomeUnknown, context.Canceled)
	hold.Release()
	fixture.WantNow(t, fixture.Context(t), env.Client, fixture.Cell("r", "c"), "v")
	if n := env.Client.Stats().Aborts; n != 0 {
		t.Errorf("%d aborts counted; the transaction has committed", n)
	}
}

// SampleRowKeys promises an order.
func TestSampleRowKeysAreSorted(t *testing.T) {
	t.Parallel()
	schema := &percolator.Schema{Tables: []percolator.Table{{Name: "t", Splits: []string{"q", "d", "m"}}}}
	env := percolatortest.New(t, schema)
	ctx := fixture.Context(t)
	for i := range 200 {
		fixture.Put(t, ctx, env.Client, fixture.Key(i), "c", strings.Repeat("x", 1000))
	}
	keys, err := admin.New(env.Client).SampleRowKeys(ctx, "t")
	fixture.Must(t, err)
	if !slices.IsSorted(keys) {
		t.Errorf("not sorted: %q", keys)
	}
}
