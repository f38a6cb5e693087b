package admin_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// manyPeople is more than the first page of a scan, and less than the first two.
const manyPeople = 100

// cityEnv is an instance with many people, each in a city of its own, which an index knows.
func cityEnv(t testing.TB, ctx context.Context) *percolatortest.Env {
	t.Helper()
	env := fixture.NewCollectorEnv(t, func(s *percolator.Schema) { s.Tables = peopleSchema(percolator.Timing{}, "city").Tables })
	var pairs []string
	for i := range manyPeople {
		pairs = append(pairs, fixture.Key(i), fmt.Sprintf("city %03d", i))
	}
	fixture.SetPeople(t, ctx, env.Client, fixture.City, pairs...)
	return env
}

// metaBlind is a client that cannot read the meta row while blind is set.
func metaBlind(env *percolatortest.Env) (c *percolator.Client, blind *atomic.Bool) {
	c, blind = env.NewClient(), new(atomic.Bool)
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if blind.Load() && r.Table == "percolator_meta" && r.Row == "meta" {
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	return c, blind
}

// begin begins to read a stream. The rest is read when the function that it returns is called,
// which counts all entries.
func begin(t testing.TB, stream iter.Seq2[percolator.Entry, error]) (rest func() (int, error)) {
	t.Helper()
	next, stop := iter.Pull2(stream)
	_, err, ok := next()
	if err != nil || !ok {
		t.Fatalf("the first entry: %v, %v", ok, err)
	}
	return func() (n int, err error) {
		defer stop()
		for ok, n = true, 1; ok; {
			if _, err, ok = next(); err != nil {
				return n, err
			} else if ok {
				n++
			}
		}
		return n, nil
	}
}

// whenAnnounced calls f when a collection has announced its safepoint, and ends it then.
func whenAnnounced(t testing.TB, ctx context.Context, c *percolator.Client, f func()) {
	t.Helper()
	stop, cancel := context.WithCancel(ctx)
	_, err := fixture.NewCollector(t, c, admin.CollectorConfig{Progress: func(col admin.Collection) {
		if col.Phase == model.CollectionDrain && stop.Err() == nil {
			f()
			cancel()
		}
	}}).Collect(stop)
	fixture.WantErr(t, err, context.Canceled)
}

// comesBack drops the index, or with its table, and declares it again at the first moment at which
// it may come back. Right before it calls learn, and then f. Who learns then knows of the drop
// only: that its snapshots are below the safepoint it does not know yet.
func comesBack(t testing.TB, ctx context.Context, env *percolatortest.Env, without *percolator.Schema, learn, f func()) {
	t.Helper()
	c := env.Client
	without.Timing = c.Schema().Timing
	fixture.Must(t, fixture.ErrOf(admin.New(c).DropFromSchema(ctx, without, admin.DropOptions{ClientOptions: env.Options()})))
	time.Sleep(fixture.PastRetention)
	learn()
	whenAnnounced(t, ctx, c, func() {
		addIndexes(t, ctx, env, c, "city")
		f()
	})
}

// learns has a client read the meta row.
func learns(t testing.TB, ctx context.Context, c *percolator.Client) func() {
	return func() { fixture.Must(t, fixture.ErrOf(c.Engine().Meta.Refresh(ctx))) }
}

// The consumer of a scan is slow. Meanwhile what it scans is dropped, and comes back: an end of the
// scan without an error would be a wrong answer (I26).
func TestSlowScanOfWhatWasDroppedAndCameBack(t *testing.T) {
	t.Parallel()
	type scan = func(ctx context.Context, r percolator.Reader) iter.Seq2[percolator.Entry, error]
	for name, way := range map[string]struct {
		scan    scan
		without *percolator.Schema
	}{
		"index": {func(ctx context.Context, r percolator.Reader) iter.Seq2[percolator.Entry, error] {
			return r.ScanIndex(ctx, "people", "city", percolator.All())
		}, peopleSchema(percolator.Timing{})},
		"table": {func(ctx context.Context, r percolator.Reader) iter.Seq2[percolator.Entry, error] {
			return r.Scan(ctx, "people", percolator.All())
		}, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				ctx := context.Background()
				env := cityEnv(t, ctx)
				reader := env.NewClient()
				s, err := reader.Snapshot(ctx)
				fixture.Must(t, err)
				rest := begin(t, way.scan(ctx, s))
				comesBack(t, ctx, env, way.without, learns(t, ctx, reader), func() {
					if n, err := rest(); !errors.Is(err, percolator.ErrSchemaMismatch) {
						t.Errorf("%d of %d entries, and then %v", n, manyPeople, err)
					}
				})
			})
		})
	}
}

// A verification lives through the time in which its index is gone, and does not report entries of
// another one (I26).
func TestVerifyIndexThatWasDroppedAndCameBack(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		ctx := context.Background()
		env := cityEnv(t, ctx)
		reader, pages := env.NewClient(), 0
		report, err := admin.New(reader).VerifyIndex(ctx, "people", "city", admin.VerifyIndexOptions{Progress: func(admin.IndexReport) {
			if pages++; pages == 1 {
				comesBack(t, ctx, env, peopleSchema(percolator.Timing{}), learns(t, ctx, reader), func() {})
			}
		}})
		if !errors.Is(err, percolator.ErrSchemaMismatch) || report.Damaged() > 0 {
			t.Errorf("%v, %+v", err, report)
		}
	})
}

// A client could not read the meta row while an index was dropped and declared again. It must not
// go by what it knew (I26).
func TestIndexScanByOldKnowledge(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		ctx := context.Background()
		env := cityEnv(t, ctx)
		c := env.Client
		reader, blind := metaBlind(env)
		blind.Store(true)
		_, err := admin.New(c).DropFromSchema(ctx, peopleSchema(c.Schema().Timing), admin.DropOptions{ClientOptions: env.Options()})
		fixture.Must(t, err)
		time.Sleep(fixture.PastRetention)
		whenAnnounced(t, ctx, c, func() { addIndexes(t, ctx, env, c, "city") })
		for _, want := range []error{percolator.ErrSnapshotTooOld, percolator.ErrSchemaMismatch} {
			s, err := reader.Snapshot(ctx)
			fixture.Must(t, err)
			if n, err := countEntries(s.ScanIndex(ctx, "people", "city", percolator.All())); !errors.Is(err, want) {
				t.Errorf("%d of %d entries, and then %v, want %v", n, manyPeople, err, want)
			}
			err = fixture.FirstError(s.Scan(ctx, "people", percolator.All()))
			if blind.Load() != errors.Is(err, percolator.ErrSnapshotTooOld) {
				t.Errorf("a scan of the table: %v", err)
			}
			blind.Store(false)
		}
	})
}

func countEntries(stream iter.Seq2[percolator.Entry, error]) (n int, err error) {
	for _, err := range stream {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// An index is being dropped, and writers maintain it no more. Neither a client that could not read
// the meta row meanwhile scans it, nor does a scan go on that had started before (I26).
func TestIndexScanBesideADrop(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		ctx := context.Background()
		env := cityEnv(t, ctx)
		c := env.Client
		reader, blind := metaBlind(env)
		other, otherBlind := metaBlind(env)
		before, err := reader.Snapshot(ctx)
		fixture.Must(t, err)
		rest := begin(t, before.ScanIndex(ctx, "people", "city", percolator.All()))
		blind.Store(true)
		otherBlind.Store(true)
		drains := 0
		opts := noWait(env)
		opts.Wait = func(ctx context.Context, d time.Duration) error {
			time.Sleep(d)
			if drains++; drains != 2 {
				return nil
			}
			fixture.SetPeople(t, ctx, c, fixture.City, "newcomer", "city 100")
			s, err := reader.Snapshot(ctx)
			fixture.Must(t, err)
			blind.Store(false)
			otherBlind.Store(false)
			for _, r := range []percolator.Reader{s, fixture.MustBegin(t, ctx, other)} {
				if n, err := countEntries(r.ScanIndex(ctx, "people", "city", percolator.All())); !errors.Is(err, percolator.ErrSchemaMismatch) {
					t.Errorf("%T: %d of %d entries, and then %v", r, n, manyPeople+1, err)
				}
			}
			if n, err := rest(); !errors.Is(err, percolator.ErrSchemaMismatch) {
				t.Errorf("the scan that had started before: %d entries, and then %v", n, err)
			}
			return nil
		}
		fixture.Must(t, fixture.ErrOf(admin.New(c).DropFromSchema(ctx, peopleSchema(c.Schema().Timing), opts)))
		if drains < 2 {
			t.Errorf("%d drains", drains)
		}
	})
}
