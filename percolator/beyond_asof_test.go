package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

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
	must(t, err)
	out := fmt.Sprintf("%q", many)
	for _, c := range cells {
		v, err := s.Get(ctx, c)
		if err != nil && !errors.Is(err, percolator.ErrNotFound) {
			t.Fatal(err)
		}
		out += fmt.Sprintf(" %q", v)
	}
	for e, err := range s.Scan(ctx, "people", percolator.All()) {
		must(t, err)
		out += fmt.Sprintf(" %s=%s@%d", e.Cell.Row, e.Value, e.CommitTS)
	}
	return out + " " + listIndex(t, ctx, s, "city", percolator.All())
}

// A snapshot of the past answers the same from every client and at every time within the retention, whatever is written, deleted, left
// behind by the dead and cleaned up since.
func TestAsOfIsRepeatable(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, c := testContext(t), env.Client
	rows := []string{"ann", "bob", "cid", "dan"}
	set := func(who, where string) {
		must(t, update(ctx, c, func(tx *percolator.Txn) error { return city.Set(tx, who, where) }))
	}
	set("ann", "Rome")
	set("bob", "Bern")
	must(t, update(ctx, c, func(tx *percolator.Txn) error { return city.Delete(tx, "bob") }))
	set("cid", "Oslo")
	then, err := env.Oracle.Next(ctx)
	must(t, err)
	at := func(c *percolator.Client) string {
		t.Helper()
		s, err := c.Snapshot(ctx, percolator.AsOfTimestamp(then))
		must(t, err)
		return everything(t, ctx, s, rows...)
	}
	want := at(c)
	other := env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.DisableBatching = true }))
	for i, change := range []func(){
		func() { set("ann", "Ulm") },
		func() { set("bob", "Ulm") },
		func() { must(t, update(ctx, c, func(tx *percolator.Txn) error { return city.Delete(tx, "cid") })) },
		func() { set("dan", "Rome") },
		func() { // the dead leave locks, before and after their commit point
			for _, is := range []func(percolatortest.Request) bool{nil, isCommit} {
				dead := env.NewClient()
				tx := mustBegin(t, ctx, dead)
				must(t, errors.Join(city.Set(tx, "dan", "Kiel"), city.Set(tx, "ann", "Kiel")))
				var stopped atomic.Bool
				env.FaultsOf(dead).Handle(func(r percolatortest.Request) percolatortest.Action {
					if stopped.Load() || is == nil && isCommit(r) {
						return percolatortest.Crash
					}
					stopped.Store(is != nil && is(r))
					return percolatortest.Pass
				})
				_, err := tx.Commit(ctx)
				if (err == nil) != (is != nil) {
					t.Fatalf("the dead client's commit: %v", err)
				}
				env.Clock.Advance(lockTTL)
			}
		},
		func() { wantNow(t, ctx, c, city.Cell("ann"), "Kiel") }, // cleans up
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
		wantErr(t, errOf(c.Snapshot(ctx, percolator.AsOfTimestamp(then))), percolator.ErrSnapshotTooOld)
	}
}

// A commit that is under way when a snapshot of the present is read belongs to it or does not, once and for all: who reads before it is
// decided waits.
func TestAsOfBesideACommitUnderWay(t *testing.T) {
	t.Parallel()
	for _, stamped := range []bool{false, true} { // whether the writer already has its commit timestamp
		env := newEnv(t)
		ctx, c := testContext(t), env.Client
		put(t, ctx, c, "a", "c", "old", "b", "c", "old")
		writer := env.NewClient()
		hold := percolatortest.NewHold()
		tx := mustBegin(t, ctx, writer)
		must(t, errors.Join(tx.Set(cell("a", "c"), []byte("new")), tx.Set(cell("b", "c"), []byte("new"))))
		env.FaultsOf(writer).Handle(func(r percolatortest.Request) percolatortest.Action {
			if stamped && isCommit(r) || !stamped && r.Method == percolatortest.Oracle {
				return hold
			}
			return percolatortest.Pass
		})
		done := make(chan error, 1)
		go func() { done <- errOf(tx.Commit(ctx)) }()
		hold.Wait(t, 1)
		now, err := env.Oracle.Next(ctx)
		must(t, err)
		s, err := c.Snapshot(ctx, percolator.AsOfTimestamp(now))
		must(t, err)
		for _, row := range []string{"a", "b"} {
			waiting, giveUp := context.WithCancel(ctx)
			before := tally(env, c)["ReadRows"]
			read := make(chan error, 1)
			go func() { read <- errOf(s.Get(waiting, cell(row, "c"))) }()
			eventually(t, "the reader has looked at the cell, at the primary, and at the cell again", func() bool { return tally(env, c)["ReadRows"] >= before+3 })
			giveUp()
			wantErr(t, <-read, percolator.ErrLocked, context.Canceled)
		}
		hold.Release()
		must(t, <-done)
		want := "old"
		if stamped {
			want = "new"
		}
		for range 2 {
			again, err := c.Snapshot(ctx, percolator.AsOfTimestamp(now))
			must(t, err)
			for _, r := range []percolator.Reader{s, again} {
				wantValue(t, ctx, r, cell("a", "c"), want)
				wantValue(t, ctx, r, cell("b", "c"), want)
			}
			must(t, writer.Flush(ctx))
		}
	}
}

// The edges of what can be read: the retention to the tick behind, the oracle's present to the tick ahead.
func TestAsOfLimits(t *testing.T) {
	t.Parallel()
	const retention = 10 * time.Minute
	env := newEnv(t, percolatortest.Configure(func(cfg *percolator.Config) { cfg.Retention = retention }))
	ctx, c := testContext(t), env.Client
	put(t, ctx, c, "r", "c", "v")
	env.Clock.Stop()
	env.Clock.Advance(time.Hour)
	now, err := env.Oracle.Next(ctx)
	must(t, err)
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
			wantValue(t, ctx, s, cell("r", "c"), "v")
		}
		err = c.View(ctx, func(context.Context, *percolator.Snapshot) error { return nil }, percolator.AsOf(tc.at.Time()))
		if name != "the present" && !errors.Is(err, tc.want) {
			t.Errorf("%s by its time: %v, want %v", name, err, tc.want)
		}
	}
	wantErr(t, errOf(c.Snapshot(ctx, percolator.AsOf(time.Time{}))), percolator.ErrInvalidArgument)
	wantErr(t, errOf(c.Snapshot(ctx, percolator.AsOf(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)))), percolator.ErrInvalidArgument)
}
