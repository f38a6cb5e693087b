package percolator_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Clients that contend for a cell of a slow store all make progress: a lock does not count as dead
// while its requests are on their way.
func TestContendedCommitsOnASlowStore(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		const commits = 24
		if of := contendedCommits(t, commits); slices.Max(of) > commits*2/3 {
			t.Errorf("one client makes most commits: %v", of)
		}
	})
}

// None of them is left behind: each makes at least a third of its share.
func TestContendedCommitsOnASlowStoreAreFair(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		const commits = 180
		if of := contendedCommits(t, commits); slices.Min(of) < commits/len(of)/3 {
			t.Errorf("one client is left behind: %v", of)
		}
	})
}

// contendedCommits is how many commits each of three clients makes that contend for a cell of a
// store whose requests take 0.8 of a lock's TTL.
func contendedCommits(t *testing.T, commits int64) []int {
	t.Helper()
	const ttl, clients = 100 * time.Millisecond, 3
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	slow := option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		time.Sleep(ttl * 4 / 10)
		defer time.Sleep(ttl * 4 / 10)
		return invoke(ctx, method, req, reply, cc, opts...)
	}))
	var total atomic.Int64
	var group sync.WaitGroup
	of := make([]int, clients)
	for i := range of {
		c, err := percolator.NewClient(ctx, percolator.Config{Project: env.Project, Instance: env.Instance, Oracle: env.Oracle, LockTTL: ttl}, append(env.Options(), slow)...)
		fixture.Must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		group.Go(func() {
			for total.Load() < commits {
				_, err := c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
					if _, err := tx.GetForUpdate(ctx, fixture.Cell("hot", "n")); err != nil && !errors.Is(err, percolator.ErrNotFound) {
						return err
					}
					return tx.Set(fixture.Cell("hot", "n"), nil)
				})
				if err != nil {
					t.Error(err)
					return
				}
				of[i]++
				total.Add(1)
			}
		})
	}
	group.Wait()
	t.Logf("commits: %v", of)
	return of
}
