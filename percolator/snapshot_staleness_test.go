package percolator_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// A snapshot that may be stale costs no request to the oracle while the client has a timestamp that
// is new enough, contains what this client has committed, and is as old as it may be, not older.
func TestMaxStaleness(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	c, other := env.Client, env.NewClient()
	asked := func() int { return fixture.Tally(env, c)["Oracle"] }

	committed := fixture.Put(t, ctx, c, "r", "c", "mine")
	before := asked()
	s, err := c.Snapshot(ctx, percolator.MaxStaleness(time.Hour))
	fixture.Must(t, err)
	fixture.WantValue(t, ctx, s, fixture.Cell("r", "c"), "mine")
	if n := asked() - before; n != 0 || s.StartTimestamp() < committed {
		t.Errorf("%d requests to the oracle; the snapshot is at %d, the commit was at %d", n, s.StartTimestamp(), committed)
	}

	fixture.Put(t, ctx, other, "r", "c", "another's")
	fixture.Must(t, c.View(ctx, func(_ context.Context, s *percolator.Snapshot) error {
		fixture.WantValue(t, ctx, s, fixture.Cell("r", "c"), "mine") // committed less than an hour ago
		return nil
	}, percolator.MaxStaleness(time.Hour)))

	for _, d := range []time.Duration{0, time.Nanosecond} {
		before := asked()
		s, err := c.Snapshot(ctx, percolator.MaxStaleness(d))
		fixture.Must(t, err)
		fixture.WantValue(t, ctx, s, fixture.Cell("r", "c"), "another's")
		if n := asked() - before; n != 1 {
			t.Errorf("%d requests to the oracle for a snapshot that may be %v old", n, d)
		}
	}
	for _, opts := range [][]percolator.ReadOption{
		{percolator.MaxStaleness(-time.Second)},
		{percolator.MaxStaleness(time.Second), percolator.AsOf(time.Now())},
	} {
		_, err := c.Snapshot(ctx, opts...)
		fixture.WantErr(t, err, percolator.ErrInvalidArgument)
	}
	fixture.Must(t, c.Close())
	if s, err := c.Snapshot(ctx, percolator.MaxStaleness(time.Hour)); err == nil {
		t.Errorf("a snapshot of a closed client, at %d", s.StartTimestamp())
	}
}

// A client that was idle while collection passed its newest timestamp takes another one.
func TestMaxStalenessOfWhatWasCollected(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testMaxStalenessOfWhatWasCollected)
}

func testMaxStalenessOfWhatWasCollected(t *testing.T) {
	ctx, schema := fixture.Context(t), fixture.Schema()
	schema.Timing = percolator.Timing{RequestLifetime: 500 * time.Millisecond, MetaMaxAge: 500 * time.Millisecond} // for collection
	env := percolatortest.New(t, schema)
	idle := env.NewClient()
	committed := fixture.Put(t, ctx, idle, "r", "c", "v")
	env.Clock.Advance(2 * time.Hour)
	fixture.Collect(t, ctx, env.Client)
	_, err := idle.Engine().Meta.Refresh(ctx) // as it does every now and then
	fixture.Must(t, err)
	for _, stale := range []percolator.ReadOption{percolator.AtLeast(committed), percolator.MaxStaleness(time.Hour), percolator.AtLeast(committed)} {
		s, err := idle.Snapshot(ctx, stale)
		fixture.Must(t, err)
		fixture.WantValue(t, ctx, s, fixture.Cell("r", "c"), "v")
		if at := s.StartTimestamp(); at.Sub(committed) < 2*time.Hour {
			t.Errorf("the snapshot is at %v, the commit was at %v", at.Time(), committed.Time())
		}
	}
}

// Whatever others of the same client do meanwhile, a stale snapshot has what was committed before
// it was asked for.
func TestMaxStalenessReadsOwnCommits(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			at := fixture.Cell(fixture.Key(i), "c")
			for n := range 20 {
				want := fmt.Sprint(n)
				if err := fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error { return tx.Set(at, []byte(want)) }); err != nil {
					t.Error(err)
					return
				}
				s, err := env.Client.Snapshot(ctx, percolator.MaxStaleness(time.Hour))
				if err != nil {
					t.Error(err)
					return
				}
				fixture.WantValue(t, ctx, s, at, want)
			}
		})
	}
	wg.Wait()
}

// A snapshot at least of a commit that was handed over costs one request to the oracle if the
// client knows no timestamp from there on, and none otherwise; MaxStaleness bounds its age as well.
func TestAtLeast(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	c, other := env.Client, env.NewClient()
	at := fixture.Cell("r", "c")
	view := func(what, want string, requests int, opts ...percolator.ReadOption) tso.Timestamp {
		t.Helper()
		before := fixture.Tally(env, c)["Oracle"]
		s, err := c.Snapshot(ctx, opts...)
		fixture.Must(t, err)
		fixture.WantValue(t, ctx, s, at, want)
		if n := fixture.Tally(env, c)["Oracle"] - before; n != requests {
			t.Errorf("%s: %d requests to the oracle, want %d", what, n, requests)
		}
		return s.StartTimestamp()
	}
	mine := fixture.Put(t, ctx, c, "r", "c", "mine")
	view("the own commit", "mine", 0, percolator.AtLeast(mine))
	theirs := fixture.Put(t, ctx, other, "r", "c", "theirs")
	view("an earlier commit", "mine", 0, percolator.AtLeast(mine), percolator.MaxStaleness(time.Hour))
	first := view("another's commit", "theirs", 1, percolator.MaxStaleness(time.Hour), percolator.AtLeast(theirs))
	if again := view("another's commit again", "theirs", 0, percolator.AtLeast(theirs)); again != first || first < theirs {
		t.Errorf("snapshots at %d and %d of a commit at %d", first, again, theirs)
	}
	view("the snapshot's own timestamp", "theirs", 0, percolator.AtLeast(first))
	later := fixture.Put(t, ctx, other, "r", "c", "later")
	view("what may be 1 ns old", "later", 1, percolator.AtLeast(mine), percolator.MaxStaleness(1))
	fixture.Put(t, ctx, other, "r", "c", "last")
	view("what may not be old", "last", 1, percolator.MaxStaleness(0), percolator.AtLeast(later))
	view("no commit", "last", 1, percolator.AtLeast(0))
}

// AtLeast refuses what no commit timestamp can be, and does not wait for it to come.
func TestAtLeastOfTheFuture(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	now := fixture.Put(t, ctx, env.Client, "r", "c", "v")
	for _, c := range []struct {
		name     string
		opts     []percolator.ReadOption
		requests int
	}{
		{"the future", []percolator.ReadOption{percolator.AtLeast(now.Add(time.Minute))}, 1},
		{"the future, stale", []percolator.ReadOption{percolator.AtLeast(now.Add(time.Minute)), percolator.MaxStaleness(time.Hour)}, 1},
		{"negative", []percolator.ReadOption{percolator.AtLeast(-1)}, 0},
		{"with AsOf", []percolator.ReadOption{percolator.AtLeast(now), percolator.AsOfTimestamp(now)}, 0},
	} {
		before := fixture.Tally(env, env.Client)["Oracle"]
		_, err := env.Client.Snapshot(ctx, c.opts...)
		fixture.WantErr(t, err, percolator.ErrInvalidArgument)
		if n := fixture.Tally(env, env.Client)["Oracle"] - before; n != c.requests {
			t.Errorf("%s: %d requests to the oracle, want %d", c.name, n, c.requests)
		}
	}
}
