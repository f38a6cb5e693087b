package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// everything is what a snapshot shows, by every way to read.
func everything(t *testing.T, ctx context.Context, s *percolator.Snapshot, rows ...string) string {
	t.Helper()
	var cells []percolator.Cell
	for _, r := range rows {
		cells = append(cells, percolator.Cell{Table: "people", Row: r, Column: "city"})
	}
	many, err := s.GetMulti(ctx, cells...)
	fixture.Must(t, err)
	out := fmt.Sprintf("%q", many)
	for _, c := range cells {
		v, err := s.Get(ctx, c)
		if err != nil && !errors.Is(err, percolator.ErrNotFound) {
			t.Fatal(err)
		}
		out += fmt.Sprintf(" %q", v)
	}
	for e, err := range s.Scan(ctx, "people", percolator.All()) {
		fixture.Must(t, err)
		out += fmt.Sprintf(" %s=%s@%d", e.Cell.Row, e.Value, e.CommitTS)
	}
	return out + " " + fixture.ListIndex(t, ctx, s, "city", percolator.All())
}

// A snapshot of the past answers the same from every client and at every time within the retention,
// whatever is written, deleted, left behind by the dead and cleaned up since.
func TestAsOfIsRepeatable(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	rows := []string{"ann", "bob", "cid", "dan"}
	set := func(who, where string) {
		fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return fixture.City.Set(tx, who, where) }))
	}
	set("ann", "Rome")
	set("bob", "Bern")
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return fixture.City.Delete(tx, "bob") }))
	set("cid", "Oslo")
	then, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	at := func(c *percolator.Client) string {
		t.Helper()
		s, err := c.Snapshot(ctx, percolator.AsOfTimestamp(then))
		fixture.Must(t, err)
		return everything(t, ctx, s, rows...)
	}
	want := at(c)
	other := env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.DisableBatching = true }))
	for i, change := range []func(){
		func() { set("ann", "Ulm") },
		func() { set("bob", "Ulm") },
		func() {
			fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return fixture.City.Delete(tx, "cid") }))
		},
		func() { set("dan", "Rome") },
		func() { // the dead leave locks, before and after their commit point
			fixture.Must(t, c.Flush(ctx)) // so that they meet no lock that they roll forward
			for _, is := range []func(percolatortest.Request) bool{nil, fixture.IsCommit} {
				dead := env.NewClient()
				tx := fixture.MustBegin(t, ctx, dead)
				fixture.Must(t, errors.Join(fixture.City.Set(tx, "dan", "Kiel"), fixture.City.Set(tx, "ann", "Kiel")))
				var stopped atomic.Bool
				env.FaultsOf(dead).Handle(func(r percolatortest.Request) percolatortest.Action {
					if stopped.Load() || is == nil && fixture.IsCommit(r) {
						return percolatortest.Crash
					}
					stopped.Store(is != nil && is(r))
					return percolatortest.Pass
				})
				_, err := tx.Commit(ctx)
				if (err == nil) != (is != nil) {
					t.Fatalf("the dead client's commit: %v", err)
				}
				env.Clock.Advance(fixture.LockTTL)
			}
		},
		func() { fixture.WantNow(t, ctx, c, fixture.City.Cell("ann"), "Kiel") }, // cleans up
		func() { env.Clock.Advance(50 * time.Minute) },
		func() { set("ann", "Bonn") },
	} {
		change()
		for _, c := range []*percolator.Client{c, other} {
			if got := at(c); got != want {
				t.Fatalf("after change %d: %s, want %s", i, got, want)
			}
		}
	}
	env.Clock.Advance(11 * time.Minute)
	for _, c := range []*percolator.Client{c, other} {
		fixture.WantErr(t, fixture.ErrOf(c.Snapshot(ctx, percolator.AsOfTimestamp(then))), percolator.ErrSnapshotTooOld)
	}
}

// A commit that is under way when a snapshot of the present is read belongs to it or does not, once
// and for all: who reads before it is decided waits.
func TestAsOfBesideACommitUnderWay(t *testing.T) {
	t.Parallel()
	for _, stamped := range []bool{false, true} { // whether the writer already has its commit timestamp
		env := fixture.NewEnv(t)
		ctx, c := fixture.Context(t), env.Client
		fixture.Put(t, ctx, c, "a", "c", "old", "b", "c", "old")
		writer := env.NewClient()
		hold := percolatortest.NewHold()
		tx := fixture.MustBegin(t, ctx, writer)
		fixture.Must(t, errors.Join(tx.Set(fixture.Cell("a", "c"), []byte("new")), tx.Set(fixture.Cell("b", "c"), []byte("new"))))
		env.FaultsOf(writer).Handle(func(r percolatortest.Request) percolatortest.Action {
			if stamped && fixture.IsCommit(r) || !stamped && r.Method == percolatortest.Oracle {
				return hold
			}
			return percolatortest.Pass
		})
		done := make(chan error, 1)
		go func() { done <- fixture.ErrOf(tx.Commit(ctx)) }()
		hold.Wait(t, 1)
		now, err := env.Oracle.Next(ctx)
		fixture.Must(t, err)
		s, err := c.Snapshot(ctx, percolator.AsOfTimestamp(now))
		fixture.Must(t, err)
		for _, row := range []string{"a", "b"} {
			waiting, giveUp := context.WithCancel(ctx)
			before := fixture.Tally(env, c)["ReadRows"]
			read := make(chan error, 1)
			go func() { read <- fixture.ErrOf(s.Get(waiting, fixture.Cell(row, "c"))) }()
			fixture.Eventually(t, "the reader has looked at the cell, at the primary, and at the cell again", func() bool { return fixture.Tally(env, c)["ReadRows"] >= before+3 })
			giveUp()
			fixture.WantErr(t, <-read, percolator.ErrLocked, context.Canceled)
		}
		hold.Release()
		fixture.Must(t, <-done)
		want := "old"
		if stamped {
			want = "new"
		}
		for range 2 {
			again, err := c.Snapshot(ctx, percolator.AsOfTimestamp(now))
			fixture.Must(t, err)
			for _, r := range []percolator.Reader{s, again} {
				fixture.WantValue(t, ctx, r, fixture.Cell("a", "c"), want)
				fixture.WantValue(t, ctx, r, fixture.Cell("b", "c"), want)
			}
			fixture.Must(t, writer.Flush(ctx))
		}
	}
}

// The edges of what can be read: the retention to the tick behind, the oracle's present to the tick
// ahead.
func TestAsOfLimits(t *testing.T) {
	t.Parallel()
	const retention = 10 * time.Minute
	env := fixture.NewEnv(t, percolatortest.Configure(func(cfg *percolator.Config) { cfg.Retention = retention }))
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "v")
	env.Clock.Stop()
	env.Clock.Advance(time.Hour)
	now, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	for name, tc := range map[string]struct {
		at   tso.Timestamp
		want error
	}{
		"the present":                {now, nil},
		"well within the retention":  {now.Add(-retention / 2), nil},
		"just within the retention":  {now.Add(-retention + time.Second), nil},
		"just beyond the retention":  {now.Add(-retention - time.Second), percolator.ErrSnapshotTooOld},
		"far beyond the retention":   {1, percolator.ErrSnapshotTooOld},
		"a second ahead":             {now.Add(time.Second), percolator.ErrInvalidArgument},
		"a year ahead":               {now.Add(365 * 24 * time.Hour), percolator.ErrInvalidArgument},
		"before the first timestamp": {-1, percolator.ErrInvalidArgument},
	} {
		s, err := c.Snapshot(ctx, percolator.AsOfTimestamp(tc.at))
		if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
			continue
		}
		if err == nil {
			fixture.WantValue(t, ctx, s, fixture.Cell("r", "c"), "v")
		}
		err = c.View(ctx, func(context.Context, *percolator.Snapshot) error { return nil }, percolator.AsOf(tc.at.Time()))
		if name != "the present" && !errors.Is(err, tc.want) {
			t.Errorf("%s by its time: %v, want %v", name, err, tc.want)
		}
	}
	fixture.WantErr(t, fixture.ErrOf(c.Snapshot(ctx, percolator.AsOf(time.Time{}))), percolator.ErrInvalidArgument)
	fixture.WantErr(t, fixture.ErrOf(c.Snapshot(ctx, percolator.AsOf(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)))), percolator.ErrInvalidArgument)
}
