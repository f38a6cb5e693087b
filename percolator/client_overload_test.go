package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// slowDown is how Bigtable asks for less, with a time to wait if told.
func slowDown(code codes.Code, told time.Duration) error {
	st := status.New(code, "limit of total mutations in your queue")
	if told > 0 {
		st, _ = st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(told)})
	}
	return st.Err()
}

// Two seconds in which Bigtable refuses a method with RESOURCE_EXHAUSTED fail nothing: no
// transaction, no scan, no cycle of collection; and with what is repeated they cost at most a fifth
// more requests than a quiet run.
func TestOverloadFailsNothing(t *testing.T) {
	t.Parallel()
	methods := map[string][]string{
		"conditional mutations": {percolatortest.CheckAndMutateRow},
		"reads":                 {percolatortest.ReadRows},
		"bulk mutations":        {percolatortest.MutateRows},
		"all":                   {percolatortest.CheckAndMutateRow, percolatortest.ReadRows, percolatortest.MutateRows},
	}
	for name, refused := range methods {
		for _, told := range []time.Duration{0, 500 * time.Millisecond} {
			t.Run(fmt.Sprint(name, told), func(t *testing.T) {
				percolatortest.Bubble(t, func(t *testing.T) {
					quiet, n := overload(t, nil, 0), overload(t, refused, told)
					if n > quiet*12/10 {
						t.Errorf("%d requests, %d in a quiet run", n, quiet)
					}
					t.Logf("%d requests, %d in a quiet run", n, quiet)
				})
			})
		}
	}
}

// Bigtable may have applied what it answers with RESOURCE_EXHAUSTED: the client finds out, and
// never takes a commit for aborted (I17).
func TestOverloadedAnswerOfWhatIsApplied(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]func(percolatortest.Request) bool{"the prewrite": fixture.IsPrewrite, "the commit": fixture.IsCommit} {
		for _, told := range []time.Duration{0, 500 * time.Millisecond} {
			t.Run(fmt.Sprint(name, told), func(t *testing.T) {
				percolatortest.Bubble(t, func(t *testing.T) {
					ctx, env := fixture.Context(t), fixture.NewEnv(t)
					n := 0
					env.FaultsOf(env.Client).Handle(func(r percolatortest.Request) percolatortest.Action {
						if is(r) {
							if n++; n == 1 {
								return percolatortest.AnswerWith(slowDown(codes.ResourceExhausted, told))
							}
						}
						return percolatortest.Pass
					})
					tx := fixture.MustBegin(t, ctx, env.Client)
					fixture.Must(t, tx.Set(fixture.Cell("a", "c"), []byte("1")))
					fixture.Must(t, tx.Set(fixture.Cell("b", "c"), []byte("1")))
					fixture.MustCommit(t, ctx, tx)
					for _, row := range []string{"a", "b"} {
						fixture.WantNow(t, ctx, env.NewClient(), fixture.Cell(row, "c"), "1")
					}
					if n == 0 {
						t.Error("no such request was sent")
					}
				})
			})
		}
	}
}

// Updates that wait for Bigtable let in no others: all would go on at once when it answers again.
func TestOverloadLetsInNoMoreUpdates(t *testing.T) {
	t.Parallel()
	for _, method := range []string{percolatortest.ReadRows, percolatortest.CheckAndMutateRow} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				ctx, env := fixture.Context(t), fixture.NewEnv(t)
				limit := env.Client.Stats().Contention.Limit
				until := time.Now().Add(4 * time.Second)
				env.FaultsOf(env.Client).Handle(func(r percolatortest.Request) percolatortest.Action {
					if r.Method == method && time.Now().Before(until) {
						return percolatortest.Refuse(slowDown(codes.ResourceExhausted, 0))
					}
					return percolatortest.Pass
				})
				var all sync.WaitGroup
				for i := range 8 * limit {
					all.Go(func() {
						if err := fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
							return add(ctx, tx, fmt.Sprint(i))
						}); err != nil {
							t.Error(err)
						}
					})
				}
				time.Sleep(time.Until(until))
				if s := env.Client.Stats().Contention; s.Attempts != limit || s.Limit != limit {
					t.Errorf("%d attempts at once, of at most %d, want %d", s.Attempts, s.Limit, limit)
				}
				all.Wait()
			})
		})
	}
}

// overload makes transactions and scans for a time, of which two seconds are bad, and returns how
// many requests that took.
func overload(t *testing.T, refused []string, told time.Duration) int {
	t.Helper()
	const (
		quiet, bad = 4 * time.Second, 2 * time.Second
		every      = 50 * time.Millisecond
	)
	ctx, env := fixture.Context(t), fixture.NewEnv(t, fixture.ShortRetention)
	c, started := env.Client, time.Now()
	refuse := func(r percolatortest.Request) percolatortest.Action {
		if now := time.Since(started); now < quiet || now >= quiet+bad {
			return percolatortest.Pass
		}
		for _, m := range refused {
			if r.Method == m {
				return percolatortest.Refuse(slowDown(codes.ResourceExhausted, told))
			}
		}
		return percolatortest.Pass
	}
	faults := env.FaultsOf(c)
	faults.Handle(refuse)
	faults.HandleJournal(refuse)
	var all sync.WaitGroup
	report := func(what string, err error) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range int((3*quiet + bad) / every) {
		all.Go(func() {
			_, err := c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
				if _, err := tx.Get(ctx, fixture.Cell(fixture.Key(i), "c")); err != nil && !errors.Is(err, percolator.ErrNotFound) {
					return err
				}
				if err := tx.Set(fixture.Cell(fixture.Key(i), "c"), []byte("v")); err != nil {
					return err
				}
				return tx.Set(fixture.Cell(fixture.Key(10_000+i), "c"), []byte("v"))
			})
			report("transaction", err)
			if i%20 == 0 {
				s, err := c.Snapshot(ctx)
				report("snapshot", err)
				for _, err := range s.Scan(ctx, "t", percolator.All(), "c") {
					report("scan", err)
				}
			}
			if i%70 == 69 {
				_, err := fixture.NewCollector(t, c, admin.CollectorConfig{}).Collect(ctx)
				if !errors.Is(err, admin.ErrLeased) {
					report("collection", err)
				}
			}
		})
		time.Sleep(every)
	}
	all.Wait()
	fixture.Must(t, c.Flush(ctx))
	return len(faults.Requests()) + len(faults.JournalRequests())
}

// Whoever is told to wait sends nothing to that table meanwhile, whatever the code says, and
// whichever request was told.
func TestClientWaitsAsItIsTold(t *testing.T) {
	t.Parallel()
	const told = 2 * time.Second
	for _, code := range []codes.Code{codes.Unavailable, codes.ResourceExhausted} {
		for _, method := range []string{percolatortest.CheckAndMutateRow, percolatortest.ReadRows} {
			t.Run(fmt.Sprint(code, method), func(t *testing.T) {
				t.Parallel()
				percolatortest.Bubble(t, func(t *testing.T) {
					ctx, env := fixture.Context(t), fixture.NewEnv(t)
					fixture.Put(t, ctx, env.Client, "r", "c", "v")
					fixture.Must(t, env.Client.Flush(ctx))
					var mu sync.Mutex
					var asked time.Time
					early := 0
					env.FaultsOf(env.Client).Handle(func(r percolatortest.Request) percolatortest.Action {
						mu.Lock()
						defer mu.Unlock()
						switch {
						case r.Table != "t":
						case asked.IsZero() && r.Method == method:
							asked = time.Now()
							return percolatortest.Refuse(slowDown(code, told))
						case !asked.IsZero() && time.Since(asked) < told:
							early++
						}
						return percolatortest.Pass
					})
					var all sync.WaitGroup
					for range 20 {
						all.Go(func() {
							_, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
								_, err := tx.Get(ctx, fixture.Cell("r", "c"))
								return errors.Join(err, tx.Set(fixture.Cell("r", "c"), []byte("w")))
							})
							if err != nil {
								t.Error(err)
							}
						})
					}
					all.Wait()
					if asked.IsZero() || early > 20 { // what was in flight when it was told
						t.Errorf("%d requests within %v of being told to wait that long", early, told)
					}
				})
			})
		}
	}
}
