package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/protobuf/proto"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// lockOf is the lock of a row with one.
func lockOf(t *testing.T, ctx context.Context, c *percolator.Client, row string) model.Lock {
	t.Helper()
	for p, err := range admin.New(c).ScanPending(ctx, "t", percolator.Row(row)) {
		fixture.Must(t, err)
		if len(p.Locks) == 1 {
			return p.Locks[0]
		}
	}
	t.Fatalf("no lock on %s", row)
	panic("unreachable")
}

// storedCells counts what is in each family of a table.
func storedCells(t *testing.T, ctx context.Context, env *percolatortest.Env, table string) map[string]int {
	t.Helper()
	n := map[string]int{}
	fixture.Must(t, env.Store().Open(table).ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		for family, items := range r {
			n[family] += len(items)
		}
		return true
	}, bigtable.RowFilter(bigtable.StripValueFilter())))
	return n
}

// One prewrite of a large transaction takes several times the TTL of its locks. As its primary is
// refreshed, everybody who meets one of the locks finds it alive, and it commits whole.
func TestLargeTransactionOutlivesItsTTL(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testLargeTransactionOutlivesItsTTL)
}

func testLargeTransactionOutlivesItsTTL(t *testing.T) {
	const n, ttl = 500, 200 * time.Millisecond
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	env.Clock.Stop() // the oracle's time is the test's: whether a lock is alive does not depend on how fast this machine is
	writer := env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.LockTTL = ttl }))
	tx := fixture.MustBegin(t, ctx, writer)
	for i := range n {
		fixture.Must(t, tx.Set(fixture.Cell(fixture.Key(i), "c"), []byte("v")))
	}
	hold := percolatortest.NewHold()
	env.FaultsOf(writer).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsPrewrite(r) && r.Row == fixture.Key(n-1) {
			return hold
		}
		return percolatortest.Pass
	})
	done := make(chan error, 1)
	go func() { done <- fixture.ErrOf(tx.Commit(ctx)) }()
	hold.Wait(t, 1)
	fixture.Eventually(t, "the other rows are locked", func() bool { return fixture.CellsOf(t, ctx, env, "t", "lock") == n-1 })

	primary := lockOf(t, ctx, c, fixture.Key(0))
	for round := range 3 {
		// Several refreshes later the oracle catches up with the last of them: all locks but the
		// primary's have been dead for long.
		refreshed := primary.Placed.Add(3 * ttl)
		fixture.Eventually(t, "the primary's lock has been refreshed again", func() bool {
			primary = lockOf(t, ctx, c, fixture.Key(0))
			return primary.Placed >= refreshed
		})
		now, err := env.Oracle.Next(ctx)
		fixture.Must(t, err)
		env.Clock.Advance(primary.Placed.Sub(now))
		now, err = env.Oracle.Next(ctx)
		fixture.Must(t, err)
		secondary := lockOf(t, ctx, c, fixture.Key(1))
		if secondary.Primary != fixture.Cell(fixture.Key(0), "c") || round == 2 && secondary.Placed.Add(secondary.TTL) >= now {
			t.Errorf("the lock of %s is %+v, and it is %d", fixture.Key(1), secondary, now)
		}
		s, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		waiting, giveUp := context.WithCancel(ctx)
		before := fixture.Tally(env, c)["ReadRows"]
		read := make(chan error, 1)
		go func() { read <- fixture.ErrOf(s.Get(waiting, fixture.Cell(fixture.Key(1), "c"))) }()
		fixture.Eventually(t, "the reader has looked at the cell, at the primary, and at the cell again", func() bool { return fixture.Tally(env, c)["ReadRows"] >= before+3 })
		giveUp()
		fixture.WantErr(t, <-read, percolator.ErrLocked, context.Canceled)
		_, err = c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
			return tx.Set(fixture.Cell(fixture.Key(1), "c"), []byte("other"))
		}, percolator.MaxAttempts(1))
		fixture.WantErr(t, err, percolator.ErrConflict, percolator.ErrLocked)
	}
	refreshes := 0
	for _, r := range env.FaultsOf(writer).Requests() {
		if isRefresh(r) {
			refreshes++
			if r.Row != fixture.Key(0) {
				t.Errorf("%v: only the primary is refreshed", r)
			}
		}
	}
	if refreshes < 3 {
		t.Errorf("%d refreshes", refreshes)
	}
	hold.Release()
	fixture.Must(t, <-done)
	fixture.Must(t, writer.Flush(ctx))
	if got := storedCells(t, ctx, env, "t"); got["lock"] != 0 || got["write"] != n || got["data"] != n {
		t.Errorf("stored %v", got)
	}
	fixture.WantNow(t, ctx, c, fixture.Cell(fixture.Key(n-1), "c"), "v")
}

// A large transaction that cannot commit because of its last cell leaves nothing of itself behind
// but the marker on its primary.
func TestLargeTransactionLosesOnItsLastCell(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for name, s := range map[string]struct{ rows, columns int }{"many rows": {2000, 1}, "wide rows": {3, 600}} {
		for _, alive := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, met a lock %v", name, alive), func(t *testing.T) {
				t.Parallel()
				percolatortest.Bubble(t, func(t *testing.T) { losesOnItsLastCell(t, s.rows, s.columns, alive) })
			})
		}
	}
}

func losesOnItsLastCell(t *testing.T, rows, columns int, alive bool) {
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	var last percolator.Cell
	for i := range rows {
		for j := range columns {
			last = fixture.Cell(fixture.Key(i), fmt.Sprint("c", j))
			fixture.Must(t, tx.Set(last, []byte("v")))
		}
	}
	other := env.NewClient()
	hold := percolatortest.NewHold()
	if alive {
		env.FaultsOf(other).Handle(fixture.AtMost(100, fixture.IsCommit, hold))
	}
	done := make(chan error, 1)
	go func() {
		_, err := other.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Set(last, []byte("other")) })
		done <- err
	}()
	if alive {
		hold.Wait(t, 1)
	} else {
		fixture.Must(t, <-done)
	}
	_, err := tx.Commit(ctx)
	var conflict *percolator.ConflictError
	if !errors.As(err, &conflict) || conflict.Cell != last || conflict.Locked != alive {
		t.Errorf("%v, want a conflict on %s", err, last)
	}
	if alive {
		hold.Release()
		fixture.Must(t, <-done)
	}
	got := storedCells(t, ctx, env, "t")
	if got["lock"] != 0 || got["data"] != 1 || got["write"] > 2 {
		t.Errorf("left behind: %v", got)
	}
	fixture.WantNow(t, ctx, env.Client, last, "other")
	fixture.WantNow(t, ctx, env.Client, fixture.Cell(fixture.Key(0), "c0"), "")
}

// What is too large is refused before anything is sent, by an error that says where.
func TestLargeTransactionIsRefused(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	for i := range 100 {
		fixture.Must(t, tx.Set(fixture.Cell(fixture.Key(i), "c"), []byte("v")))
	}
	for i := range percolator.MaxColumnsPerRow + 1 {
		fixture.Must(t, tx.Set(fixture.Cell("wide", fmt.Sprint("c", i)), nil))
	}
	env.FaultsOf(env.Client).Forget()
	_, err := tx.Commit(ctx)
	fixture.WantErr(t, err, percolator.ErrTooLarge)
	if errors.Is(err, percolator.ErrOutcomeUnknown) || errors.Is(err, percolator.ErrConflict) {
		t.Errorf("%v: not a definite refusal", err)
	}
	if want := fmt.Sprintf("more than %d columns", percolator.MaxColumnsPerRow); !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"wide"`) {
		t.Errorf("%q does not say %q", err, want)
	}
	if n := len(env.FaultsOf(env.Client).Requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	if got := storedCells(t, ctx, env, "t"); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}

// A row of several requests is prewritten once, although the columns of one lie between those of
// another, which are locked by then.
func TestChunksOfARowDoNotMeetEachOther(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	tx := fixture.MustBegin(t, ctx, c)
	const columns = 16
	for i := range columns {
		fixture.Must(t, tx.Set(fixture.Cell("r", fmt.Sprintf("c%02d", i*7%columns)), make([]byte, 1<<20)))
	}
	env.FaultsOf(c).Forget()
	fixture.MustCommit(t, ctx, tx)
	sent := 0
	for _, r := range env.FaultsOf(c).Requests() {
		if fixture.IsPrewrite(r) {
			sent += proto.Size(r.Message)
		}
	}
	if sent > (columns+1)<<20 {
		t.Errorf("%d MiB were sent in %d", columns, sent>>20)
	}
}
