package loader_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// The client dies, or the load is stopped, at each of its requests. The position never claims more
// than what is there; the next load goes on at it, and then everything is there.
func TestEndedAnywhere(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	const items = 10
	for name, test := range map[string]struct {
		end   func(cancel context.CancelFunc) percolatortest.Action
		drain time.Duration
		want  error
	}{
		"crashed": {func(context.CancelFunc) percolatortest.Action { return percolatortest.Crash }, time.Nanosecond, nil},
		"drained": {func(cancel context.CancelFunc) percolatortest.Action { cancel(); return percolatortest.Pass }, limit, context.Canceled},
		"cut off": {func(cancel context.CancelFunc) percolatortest.Action { cancel(); return percolatortest.Pass }, time.Nanosecond, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			ended, resumed, repeated := 0, 0, int64(0)
			for nth := 1; ; nth++ {
				ctx, cancel := context.WithCancel(e.ctx)
				load := fmt.Sprintf("%s %d", name, nth)
				prefix := fmt.Sprintf("%d-", nth)
				client := e.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.LockTTL = time.Second }))
				var requests atomic.Int64
				e.FaultsOf(client).Handle(func(percolatortest.Request) percolatortest.Action {
					if requests.Add(1) == int64(nth) {
						return test.end(cancel)
					}
					return percolatortest.Pass
				})
				cfg := loader.Config{Name: load, Concurrency: 2, ItemsPerTransaction: 3, CheckpointInterval: 1, DrainTimeout: test.drain}
				job := loader.Job[string]{Source: source(prefix, items), Write: loader.Each(set)}
				first, err := loader.Load(ctx, client, cfg, job)
				cancel()
				if err == nil { // it ended before its nth request
					break
				}
				if ended++; test.want != nil && !errors.Is(err, test.want) {
					t.Errorf("ended at request %d: %v", nth, err)
				}
				e.Clock.Advance(2 * time.Second) // locks of the dead are dead
				claimed := e.wantClaimed(load, prefix)
				if claimed > first.Position.Items || name == "drained" && claimed != first.Position.Items {
					t.Errorf("ended at request %d: position %d was saved, %d reported", nth, claimed, first.Position.Items)
				}
				done := e.position(load).Done
				second, err := loader.Load(e.ctx, e.Client, cfg, job)
				if err != nil {
					t.Fatalf("resumed after request %d: %v", nth, err)
				}
				if !done && (second.From.Items != claimed || second.Resumed != (claimed > 0) || second.Items != items-claimed) {
					t.Errorf("after request %d: position %d, resumed %v at %d with %d items", nth, claimed, second.Resumed, second.From.Items, second.Items)
				}
				if second.Resumed {
					resumed++
				}
				if repeated += first.Items - claimed; name == "drained" && first.Items != claimed {
					t.Errorf("ended at request %d: %d items were loaded, the position is %d", nth, first.Items, claimed)
				}
				if n := e.stored(prefix); n != items {
					t.Errorf("after request %d: %d items of %d", nth, n, items)
				}
			}
			t.Logf("%d ends, %d of them resumed behind the beginning, %d items known to be loaded again", ended, resumed, repeated)
			if ended < 15 || resumed == 0 || resumed == ended {
				t.Errorf("%d ends, %d resumed", ended, resumed)
			}
		})
	}
}

// The source is told where to go on, by the number of items and by the token of the last of them.
func TestSourceGoesOn(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var asked []loader.Position
	src := func(_ context.Context, from loader.Position) iter.Seq2[loader.Item[string], error] {
		asked = append(asked, from)
		return func(yield func(loader.Item[string], error) bool) {
			for i := from.Items; i < 40; i++ {
				if !yield(loader.Item[string]{Value: name("t-", int(i)), Token: fmt.Appendf(nil, "behind %d", i)}, nil) {
					return
				}
			}
		}
	}
	stop := errors.New("enough")
	var poisoned atomic.Bool
	poisoned.Store(true)
	write := loader.Each(func(ctx context.Context, tx *percolator.Txn, item string) error {
		if poisoned.Load() && item == name("t-", 25) {
			return percolator.ErrInvalidArgument
		}
		return set(ctx, tx, item)
	})
	cfg := loader.Config{Name: "t", Concurrency: 1, ItemsPerTransaction: 4}
	job := loader.Job[string]{Source: src, Write: write, Failed: func(loader.Failure[string]) error { return stop }}
	first, err := loader.Load(e.ctx, e.Client, cfg, job)
	if !errors.Is(err, stop) || first.Position.Items > 25 || first.Position.Items < 22 {
		t.Fatalf("%+v, %v", first, err)
	}
	poisoned.Store(false)
	second, err := loader.Load(e.ctx, e.Client, cfg, job)
	if err != nil || second.Items != 40-first.Position.Items || e.stored("t-") != 40 {
		t.Fatalf("%+v, %v", second, err)
	}
	at := first.Position.Items
	if len(asked) != 2 || asked[0].Items != 0 || asked[0].Token != nil || asked[1].Items != at || string(asked[1].Token) != fmt.Sprintf("behind %d", at-1) {
		t.Errorf("the source was asked for %+v", asked)
	}
}

// The later of two loaders with one name goes on; the earlier one ends when it has something to
// save.
func TestTwoLoadersWithOneName(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	cfg := loader.Config{Name: "n", CheckpointInterval: 1, Concurrency: 2, ItemsPerTransaction: 5}
	waiting, goOn := make(chan bool), make(chan bool)
	var once sync.Once
	ended := make(chan error, 1)
	go func() {
		_, err := loader.Load(e.ctx, e.NewClient(), cfg, loader.Job[string]{
			Source: source("n-", 100),
			Write: loader.Each(func(ctx context.Context, tx *percolator.Txn, item string) error {
				if item == name("n-", 50) {
					once.Do(func() { close(waiting); <-goOn })
				}
				return set(ctx, tx, item)
			}),
		})
		ended <- err
	}()
	<-waiting
	job := loader.Job[string]{Source: source("n-", 100), Write: loader.Each(set)}
	r, err := loader.Load(e.ctx, e.Client, cfg, job)
	if err != nil || r.From.Items > 50 || r.Position.Items != 100 {
		t.Errorf("the later one: %+v, %v", r, err)
	}
	close(goOn)
	if err := <-ended; !errors.Is(err, loader.ErrTakenOver) {
		t.Errorf("the earlier one: %v", err)
	}
	if p := e.position("n"); !p.Done || p.Items != 100 {
		t.Errorf("the earlier one has overwritten the position: %+v", p)
	}
}

// Requests and answers are lost now and then, and timestamps cannot be had for a while: the load
// takes longer, and that is all. No item is blamed.
func TestStoreFailsNowAndThen(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	client := e.NewClient()
	n := 0
	e.FaultsOf(client).Handle(func(r percolatortest.Request) percolatortest.Action {
		n++
		switch {
		case n%7 == 0:
			return percolatortest.LoseAnswer
		case n%11 == 0, n > 50 && n < 60 && r.Method == percolatortest.Oracle:
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	r, err := loader.Load(e.ctx, client, loader.Config{Name: "w", ItemsPerTransaction: 6, CheckpointInterval: time.Millisecond}, loader.Job[string]{
		Source: source("w-", 300), Write: loader.Each(set),
		Failed: func(f loader.Failure[string]) error { return fmt.Errorf("blamed: %w", f.Err) },
	})
	if err != nil || r.Items != 300 || r.Failed != 0 || r.Retries == 0 || e.stored("w-") != 300 || !e.position("w").Done {
		t.Errorf("%+v, %v", r, err)
	}
}

// An outage that lasts ends the load; it does not turn items into failures.
func TestStoreFailsForGood(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	client := e.NewClient()
	n := 0
	e.FaultsOf(client).Handle(func(r percolatortest.Request) percolatortest.Action {
		if n++; n > 60 && r.Method == percolatortest.Oracle {
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	cfg := loader.Config{Name: "o", ItemsPerTransaction: 5, OutageTimeout: time.Millisecond}
	job := loader.Job[string]{Source: source("o-", 400), Write: loader.Each(set), Failed: func(f loader.Failure[string]) error {
		t.Errorf("item %d was blamed: %v", f.Index, f.Err)
		return nil
	}}
	r, err := loader.Load(e.ctx, client, cfg, job)
	e.mentions(err, "the store has failed for")
	if r.Position.Items >= 400 || e.wantClaimed("o", "o-") != r.Position.Items {
		t.Errorf("%+v", r)
	}
	second, err := loader.Load(e.ctx, e.Client, cfg, job)
	if err != nil || second.From.Items != r.Position.Items || e.stored("o-") != 400 {
		t.Errorf("%+v, %v", second, err)
	}
}
