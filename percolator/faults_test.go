package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Requests and answers that are lost, once or often, in any phase: the transaction commits exactly
// once (I3, I17).
func TestLostRequestsAndAnswers(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	phases := map[string]func(percolatortest.Request) bool{
		"prewrite":  fixture.IsPrewrite,
		"commit":    fixture.IsCommit,
		"phase two": func(r percolatortest.Request) bool { return r.Method == percolatortest.MutateRows },
		"reads":     func(r percolatortest.Request) bool { return r.Method == percolatortest.ReadRows },
		"all":       func(r percolatortest.Request) bool { return r.Method != percolatortest.Oracle },
	}
	for name, phase := range phases {
		for _, effect := range []percolatortest.Effect{percolatortest.LoseRequest, percolatortest.LoseAnswer, percolatortest.Duplicate} {
			for _, times := range []int{1, 4} {
				t.Run(fmt.Sprintf("%s/%v/%d", name, effect, times), func(t *testing.T) {
					t.Parallel()
					percolatortest.Bubble(t, func(t *testing.T) {
						env := fixture.NewEnv(t)
						ctx, c := fixture.Context(t), env.Client
						fixture.Put(t, ctx, c, "a", "c", "10", "b", "c", "10")
						env.FaultsOf(c).Handle(fixture.AtMost(times, phase, effect))
						tx := fixture.MustBegin(t, ctx, c)
						fixture.WantValue(t, ctx, tx, fixture.Cell("a", "c"), "10")
						fixture.Must(t, tx.Set(fixture.Cell("a", "c"), []byte("7")))
						fixture.Must(t, tx.Set(fixture.Cell("b", "c"), []byte("13")))
						fixture.Must(t, tx.Set(fixture.Cell("b", "seen"), []byte("x")))
						ts := fixture.MustCommit(t, ctx, tx)
						fixture.Must(t, c.Flush(ctx))
						fixture.WantNow(t, ctx, c, fixture.Cell("a", "c"), "7")
						fixture.WantNow(t, ctx, c, fixture.Cell("b", "c"), "13")
						before, err := c.Snapshot(ctx, percolator.AsOfTimestamp(ts-1))
						fixture.Must(t, err)
						fixture.WantValue(t, ctx, before, fixture.Cell("b", "c"), "10")
						for family, want := range map[string]int{"lock": 0, "data": 5, "write": 5, "notify": 1} {
							if n := fixture.CellsOf(t, ctx, env, "t", family); n != want {
								t.Errorf("%d cells of family %s, want %d", n, family, want)
							}
						}
						if s := c.Stats(); s.Transactions != 2 || s.Conflicts+s.Aborts+s.Unknown != 0 {
							t.Errorf("counted %+v", s)
						}
					})
				})
			}
		}
	}
}

// The context ends while the commit is under way: only then is the outcome unknown, and it is never
// reported as an abort.
func TestOutcomeIsUnknownOnlyWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	for _, lands := range []bool{true, false} {
		t.Run(fmt.Sprint("the commit lands: ", lands), func(t *testing.T) {
			t.Parallel()
			env := fixture.NewEnv(t)
			ctx, cancel := context.WithCancel(fixture.Context(t))
			defer cancel()
			held := percolatortest.NewHold()
			env.FaultsOf(env.Client).Handle(fixture.AtMost(1, fixture.IsCommit, held))
			tx := fixture.MustBegin(t, ctx, env.Client)
			fixture.Must(t, tx.Set(fixture.Cell("a", "c"), []byte("v")))
			fixture.Must(t, tx.Set(fixture.Cell("b", "c"), []byte("v")))
			done := make(chan error, 1)
			go func() { done <- fixture.ErrOf(tx.Commit(ctx)) }()
			held.Wait(t, 1)
			cancel()
			err := <-done
			fixture.WantErr(t, err, percolator.ErrOutcomeUnknown, context.Canceled)
			if errors.Is(err, percolator.ErrConflict) {
				t.Errorf("%v is reported as a conflict too", err)
			}
			after, want := fixture.Context(t), "v"
			if lands {
				held.Release()
			} else {
				held.Drop()
				env.Clock.Advance(fixture.LockTTL)
				want = ""
			}
			fixture.WantNow(t, after, env.NewClient(), fixture.Cell("b", "c"), want)
			fixture.WantNow(t, after, env.NewClient(), fixture.Cell("a", "c"), want)
		})
	}
}

// Update never repeats a transaction whose outcome it does not know.
func TestUpdateDoesNotRepeatAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, cancel := context.WithCancel(fixture.Context(t))
	defer cancel()
	held := percolatortest.NewHold()
	env.FaultsOf(env.Client).Handle(fixture.AtMost(1, fixture.IsCommit, held))
	var attempts atomic.Int64
	done := make(chan error, 1)
	go func() {
		done <- fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error { attempts.Add(1); return tx.Set(fixture.Cell("r", "c"), nil) })
	}()
	held.Wait(t, 1)
	cancel()
	fixture.WantErr(t, <-done, percolator.ErrOutcomeUnknown)
	if n := attempts.Load(); n != 1 {
		t.Errorf("%d attempts", n)
	}
}

// The zombies of I4: a prewrite that arrives after its transaction was rolled back by others, of
// the primary or of a secondary, and a commit that arrives late (I6). None brings anything back.
func TestLateRequestsAfterRollback(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]func(percolatortest.Request) bool{
		"prewrite of the primary":   func(r percolatortest.Request) bool { return fixture.IsPrewrite(r) && r.Row == "a" },
		"prewrite of the secondary": func(r percolatortest.Request) bool { return fixture.IsPrewrite(r) && r.Row == "b" },
		"commit":                    fixture.IsCommit,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := fixture.NewEnv(t)
			ctx, c := fixture.Context(t), env.Client
			fixture.Put(t, ctx, c, "a", "c", "old", "b", "c", "old")
			slow := env.NewClient()
			held := percolatortest.NewHold()
			env.FaultsOf(slow).Handle(fixture.AtMost(1, late, held))
			tx := fixture.MustBegin(t, ctx, slow)
			fixture.Must(t, tx.Set(fixture.Cell("a", "c"), []byte("zombie")))
			fixture.Must(t, tx.Set(fixture.Cell("b", "c"), []byte("zombie")))
			own, giveUp := context.WithCancel(ctx)
			done := make(chan error, 1)
			go func() { done <- fixture.ErrOf(tx.Commit(own)) }()
			held.Wait(t, 1)
			giveUp()
			<-done
			env.Clock.Advance(fixture.LockTTL)
			fixture.WantNow(t, ctx, c, fixture.Cell("a", "c"), "old")
			fixture.WantNow(t, ctx, c, fixture.Cell("b", "c"), "old")
			fixture.Put(t, ctx, c, "a", "c", "new") // others go on
			held.Release()
			env.Clock.Advance(fixture.LockTTL)
			fixture.WantNow(t, ctx, c, fixture.Cell("a", "c"), "new")
			fixture.WantNow(t, ctx, c, fixture.Cell("b", "c"), "old")
			fixture.Put(t, ctx, c, "b", "c", "new")
			if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != 0 {
				t.Errorf("%d locks left", n)
			}
		})
	}
}

// A prewrite whose answer is lost, and that meets its transaction's end when it is sent again: a
// conflict, which Update repeats in a new transaction.
func TestPrewriteSentAgainAfterRollback(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	slow := env.NewClient()
	other := env.Client
	held := percolatortest.NewHold()
	env.FaultsOf(slow).Handle(fixture.AtMost(1, fixture.IsPrewrite, held.Answer()))
	done := make(chan error, 1)
	attempts := 0
	go func() {
		done <- fixture.Update(ctx, slow, func(tx *percolator.Txn) error { attempts++; return tx.Set(fixture.Cell("r", "c"), []byte("v")) })
	}()
	held.Wait(t, 1)
	env.Clock.Advance(fixture.LockTTL)
	fixture.WantNow(t, ctx, other, fixture.Cell("r", "c"), "") // rolls it back
	held.Release()
	fixture.Must(t, <-done)
	if attempts != 2 {
		t.Errorf("%d attempts, want 2", attempts)
	}
	fixture.WantNow(t, ctx, other, fixture.Cell("r", "c"), "v")
	if s := slow.Stats(); s.Conflicts != 1 || s.Transactions != 1 {
		t.Errorf("counted %+v", s)
	}
}

// After the commit point nobody waits for a TTL: readers, scans, writers and the scan for work roll
// forward, with the notification (I10).
func TestCrashAfterTheCommitPoint(t *testing.T) {
	t.Parallel()
	for name, meet := range map[string]func(ctx context.Context, c *percolator.Client) error{
		"Get": func(ctx context.Context, c *percolator.Client) error {
			return c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
				return fixture.ErrOf(s.Get(ctx, fixture.Cell("b", "seen")))
			})
		},
		"GetMulti": func(ctx context.Context, c *percolator.Client) error {
			return c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
				return fixture.ErrOf(s.GetMulti(ctx, fixture.Cell("a", "seen"), fixture.Cell("b", "seen")))
			})
		},
		"Scan": func(ctx context.Context, c *percolator.Client) error {
			return c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
				return fixture.FirstError(s.Scan(ctx, "t", percolator.All()))
			})
		},
		"a writer": func(ctx context.Context, c *percolator.Client) error {
			return fixture.Update(ctx, c, func(tx *percolator.Txn) error { return tx.Set(fixture.Cell("b", "seen"), []byte("v")) })
		},
		"Acknowledge": func(ctx context.Context, c *percolator.Client) error {
			tx, err := c.Begin(ctx)
			if err != nil {
				return err
			}
			a, err := (*commit.Txn)(tx).Acknowledge(ctx, fixture.Cell("b", "seen"), "O", []string{"O", "P"})
			if err == nil && !a.Run {
				err = errors.New("nothing to acknowledge")
			}
			return err
		},
		"ResolveLock": func(ctx context.Context, c *percolator.Client) error {
			for p, err := range admin.New(c).ScanPending(ctx, "t", percolator.All()) {
				if err != nil {
					return err
				}
				for _, l := range p.Locks {
					if r, err := admin.New(c).ResolveLock(ctx, l); err != nil || r != model.LockRolledForward {
						return fmt.Errorf("%v, %w", r, err)
					}
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := fixture.NewEnv(t)
			ctx := fixture.Context(t)
			dying := env.NewClient()
			tx := fixture.MustBegin(t, ctx, dying)
			fixture.Must(t, tx.Set(fixture.Cell("a", "seen"), []byte("v")))
			fixture.Must(t, tx.Set(fixture.Cell("b", "seen"), []byte("v")))
			env.FaultsOf(dying).Handle(func(r percolatortest.Request) percolatortest.Action {
				if r.Method == percolatortest.MutateRows {
					return percolatortest.Crash
				}
				return percolatortest.Pass
			})
			fixture.MustCommit(t, ctx, tx)
			fixture.Must(t, dying.Flush(ctx))
			if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != 1 {
				t.Fatalf("%d locks after the crash, want the secondary's", n)
			}
			fixture.Must(t, meet(ctx, env.Client))
			fixture.Must(t, env.Client.Flush(ctx))
			if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != 0 {
				t.Errorf("%d locks left", n)
			}
			if n := fixture.CellsOf(t, ctx, env, "t", "notify"); n < 2 {
				t.Errorf("%d notifications, want that of both rows", n)
			}
			if n := env.Client.Stats().RolledForward; n != 1 {
				t.Errorf("%d rolled forward", n)
			}
		})
	}
}

// Before the commit point a reader waits while the lock may be alive, and not longer (I15).
func TestCrashBeforeTheCommitPoint(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	fixture.Put(t, ctx, env.Client, "a", "c", "old", "b", "c", "old")
	early, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	fixture.CrashAfter(t, env, nil, "a", "b")
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = s.Get(short, fixture.Cell("b", "c"))
	fixture.WantErr(t, err, percolator.ErrLocked, context.DeadlineExceeded)
	fixture.WantValue(t, ctx, early, fixture.Cell("b", "c"), "old") // what began before the lock does not care
	err = fixture.ErrOf(env.Client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Set(fixture.Cell("b", "c"), nil) }, percolator.MaxAttempts(2)))
	fixture.WantErr(t, err, percolator.ErrConflict, percolator.ErrLocked)

	got := make(chan error, 1)
	go func() { got <- fixture.ErrOf(s.Get(ctx, fixture.Cell("b", "c"))) }()
	env.Clock.Advance(fixture.LockTTL)
	fixture.Must(t, <-got)
	fixture.WantValue(t, ctx, s, fixture.Cell("b", "c"), "old")
	fixture.WantValue(t, ctx, s, fixture.Cell("a", "c"), "old")
	if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != 0 {
		t.Errorf("%d locks left", n)
	}
	fixture.Put(t, ctx, env.Client, "a", "c", "new", "b", "c", "new")
}

// A commit that takes long keeps its primary's lock young (the refresh is conditional on the lock).
func TestLongCommitRefreshesItsPrimary(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testLongCommitRefreshesItsPrimary)
}

func testLongCommitRefreshesItsPrimary(t *testing.T) {
	env := fixture.NewEnv(t, percolatortest.Configure(func(cfg *percolator.Config) { cfg.LockTTL = 300 * time.Millisecond }))
	ctx, c := fixture.Context(t), env.Client
	held := percolatortest.NewHold()
	var refreshed atomic.Int64
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		switch {
		case isRefresh(r):
			refreshed.Add(1)
		case fixture.IsPrewrite(r) && r.Row == "b":
			return held
		}
		return percolatortest.Pass
	})
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, tx.Set(fixture.Cell("a", "c"), []byte("v")))
	fixture.Must(t, tx.Set(fixture.Cell("b", "c"), []byte("v")))
	done := make(chan error, 1)
	go func() { done <- fixture.ErrOf(tx.Commit(ctx)) }()
	held.Wait(t, 1)
	fixture.Eventually(t, "several refreshes", func() bool { return refreshed.Load() >= 5 }) // at least twice the TTL
	other, err := env.NewClient().Snapshot(ctx)
	fixture.Must(t, err)
	for limit := 20 * time.Millisecond; ; limit *= 2 { // until it has met the lock
		short, cancel := context.WithTimeout(ctx, limit)
		_, err := other.Get(short, fixture.Cell("a", "c"))
		cancel()
		if errors.Is(err, percolator.ErrLocked) {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			t.Fatalf("%v, want ErrLocked", err)
		}
	}
	held.Release()
	fixture.Must(t, <-done)
	n := refreshed.Load()
	fixture.WantNow(t, ctx, c, fixture.Cell("b", "c"), "v")
	if late := refreshed.Load(); late > n+1 {
		t.Errorf("%d refreshes after the commit", late-n)
	}
}

// Own aborts leave nothing: the next attempt must not meet them.
func TestAbortCleansUp(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	tx := fixture.MustBegin(t, ctx, c)
	for i := range 20 {
		fixture.Must(t, tx.Set(fixture.Cell(fixture.Key(i), "c"), []byte("v")))
		fixture.Must(t, tx.Set(fixture.Cell(fixture.Key(i), "d"), []byte("v")))
	}
	fixture.Put(t, ctx, c, fixture.Key(13), "d", "in the way")
	_, err := tx.Commit(ctx)
	var conflict *percolator.ConflictError
	if !errors.As(err, &conflict) || conflict.Cell != fixture.Cell(fixture.Key(13), "d") || conflict.Locked {
		t.Errorf("%v, want a conflict on the cell in the way", err)
	}
	if locks, data := fixture.CellsOf(t, ctx, env, "t", "lock"), fixture.CellsOf(t, ctx, env, "t", "data"); locks != 0 || data != 1 {
		t.Errorf("%d locks and %d versions of data left, want 0 and 1", locks, data)
	}
}

// Money moves between accounts while requests are lost, repeated and late, clients die, and locks
// expire early. In every snapshot the sum is the same, and every transfer that was reported as
// committed is there exactly once.
func TestTransfersUnderFaults(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t, percolatortest.Configure(func(cfg *percolator.Config) { cfg.LockTTL = 100 * time.Millisecond }))
	ctx := fixture.Context(t)
	const accounts, workers, transfers = 6, 4, 10
	balance := percolator.Int64("t", "balance")
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
		for i := range accounts {
			if err := balance.Set(tx, fixture.Key(i), 100); err != nil {
				return err
			}
		}
		return nil
	}))
	sum := func(c *percolator.Client) {
		total, n := int64(0), 0
		err := c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
			for e, err := range balance.Scan(ctx, s, percolator.All()) {
				if err != nil {
					return err
				}
				total, n = total+e.Value, n+1
			}
			return nil
		})
		if err != nil || total != 100*accounts || n != accounts {
			t.Errorf("%d accounts hold %d, %v", n, total, err)
		}
	}
	var wg sync.WaitGroup
	var committed atomic.Int64
	for w := range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c := env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.LockTTL = 100 * time.Millisecond }))
			f := env.FaultsOf(c)
			f.Handle(func(r percolatortest.Request) percolatortest.Action {
				switch (r.Seq*7 + w*3) % 23 {
				case 0:
					return percolatortest.LoseAnswer
				case 1:
					return percolatortest.LoseRequest
				case 2, 3:
					return percolatortest.Duplicate
				}
				return percolatortest.Pass
			})
			for i := range transfers {
				from, to := fixture.Key((w+i)%accounts), fixture.Key((w+2*i+1)%accounts)
				if from == to {
					continue
				}
				attempt, cancel := context.WithTimeout(ctx, 20*time.Second)
				err := fixture.Update(attempt, c, func(tx *percolator.Txn) error {
					a, err := balance.Get(attempt, tx, from)
					if err != nil {
						return err
					}
					b, err := balance.Get(attempt, tx, to)
					if err != nil {
						return err
					}
					return errors.Join(balance.Set(tx, from, a-1), balance.Set(tx, to, b+1), percolator.Int64("u", "done").Insert(tx, fmt.Sprint(w, ".", i), 1))
				})
				cancel()
				switch {
				case err == nil:
					committed.Add(1)
				case errors.Is(err, percolator.ErrCorrupt), errors.Is(err, percolator.ErrExists), errors.Is(err, percolator.ErrNotFound):
					t.Errorf("transfer: %v", err)
				default: // lost on its way to the oracle, which nobody asks again
				}
				if i%5 == 4 {
					sum(env.Client)
				}
			}
		}()
	}
	wg.Wait()
	env.Clock.Advance(fixture.LockTTL)
	sum(env.Client)
	done := int64(0)
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	for _, err := range s.Scan(ctx, "u", percolator.All()) {
		fixture.Must(t, err)
		done++
	}
	if c := committed.Load(); done < c || c == 0 {
		t.Errorf("%d transfers are there, %d were reported as committed", done, c)
	}
}

// The anomaly that the rollback marker prevents (I4): the primary is prewritten, rolled back as
// dead, and then a duplicate of the prewrite lands. Were it to succeed, the commit would too, and
// half of the transaction would be gone.
func TestDuplicatedPrewriteDoesNotCommitHalfATransaction(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	slow := env.NewClient()
	duplicate, commit := percolatortest.NewHold(), percolatortest.NewHold()
	env.FaultsOf(slow).Handle(func(r percolatortest.Request) percolatortest.Action {
		switch {
		case fixture.IsPrewrite(r) && r.Row == "a":
			return duplicate.Copy()
		case fixture.IsCommit(r):
			return commit
		}
		return percolatortest.Pass
	})
	tx := fixture.MustBegin(t, ctx, slow)
	fixture.Must(t, tx.Set(fixture.Cell("a", "c"), []byte("v")))
	fixture.Must(t, tx.Set(fixture.Cell("b", "c"), []byte("v")))
	done := make(chan error, 1)
	go func() { done <- fixture.ErrOf(tx.Commit(ctx)) }()
	commit.Wait(t, 1)
	env.Clock.Advance(fixture.LockTTL)
	fixture.WantNow(t, ctx, c, fixture.Cell("b", "c"), "") // rolls both back
	fixture.WantNow(t, ctx, c, fixture.Cell("a", "c"), "")
	duplicate.Release()
	commit.Release()
	fixture.WantErr(t, <-done, percolator.ErrConflict)
	env.Clock.Advance(fixture.LockTTL)
	fixture.WantNow(t, ctx, c, fixture.Cell("a", "c"), "")
	fixture.WantNow(t, ctx, c, fixture.Cell("b", "c"), "")
	if n := fixture.CellsOf(t, ctx, env, "t", "lock") + fixture.CellsOf(t, ctx, env, "t", "data"); n != 0 {
		t.Errorf("%d locks and versions of data left", n)
	}
}

// A prewrite whose first request is lost is sent again, and ignores its own lock then, but not that
// of a transaction that has come meanwhile (I3).
func TestPrewriteSentAgainRespectsLocks(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	other, commit := env.NewClient(), percolatortest.NewHold()
	env.FaultsOf(other).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsCommit(r) {
			return commit
		}
		return percolatortest.Pass
	})
	prewrites := 0
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsPrewrite(r) {
			if prewrites++; prewrites == 1 {
				return percolatortest.LoseRequest
			}
		}
		return percolatortest.Pass
	})
	later := fixture.MustBegin(t, ctx, other)
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, later.Set(fixture.Cell("a", "c"), []byte("1")))
	fixture.Must(t, tx.Set(fixture.Cell("a", "c"), []byte("2")))
	done := make(chan error, 1)
	go func() { done <- fixture.ErrOf(later.Commit(ctx)) }()
	commit.Wait(t, 1)
	fixture.WantErr(t, fixture.ErrOf(tx.Commit(ctx)), percolator.ErrConflict)
	commit.Release()
	fixture.Must(t, <-done)
	fixture.WantNow(t, ctx, c, fixture.Cell("a", "c"), "1")
	if prewrites < 2 {
		t.Error("the prewrite was not sent again")
	}
}

// The store does not answer for longer than the requests of a commit live, and the context goes on:
// the caller learns how its commit has ended.
func TestOutcomeIsKnownWhenTheStoreComesBack(t *testing.T) {
	t.Parallel()
	for _, lands := range []bool{true, false} {
		t.Run(fmt.Sprint("the commit lands: ", lands), func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) { outcomeIsKnownWhenTheStoreComesBack(t, lands) })
		})
	}
}

func outcomeIsKnownWhenTheStoreComesBack(t *testing.T, lands bool) {
	ctx := fixture.Context(t)
	s := fixture.Schema()
	s.Timing = percolator.Timing{RequestLifetime: 300 * time.Millisecond}
	env := percolatortest.New(t, s)
	var mu sync.Mutex
	var down time.Time
	env.FaultsOf(env.Client).Handle(func(r percolatortest.Request) percolatortest.Action {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.Method == percolatortest.Oracle:
		case down.IsZero() && fixture.IsCommit(r):
			down = time.Now()
			if lands {
				return percolatortest.LoseAnswer
			}
			return percolatortest.LoseRequest
		case !down.IsZero() && time.Since(down) < 2*s.Timing.RequestLifetime:
			return percolatortest.LoseRequest
		case !down.IsZero() && !lands:
			env.Clock.Advance(time.Second) // until its lock is dead
		}
		return percolatortest.Pass
	})
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, tx.Set(fixture.Cell("a", "c"), []byte("v")))
	fixture.Must(t, tx.Set(fixture.Cell("b", "c"), []byte("v")))
	_, err := tx.Commit(ctx)
	want := "v"
	if lands {
		fixture.Must(t, err)
	} else {
		fixture.WantErr(t, err, percolator.ErrConflict)
		want = ""
	}
	env.Clock.Advance(fixture.LockTTL)
	fixture.WantNow(t, ctx, env.NewClient(), fixture.Cell("b", "c"), want)
	fixture.WantNow(t, ctx, env.NewClient(), fixture.Cell("a", "c"), want)
}

// isRefresh recognizes the refresh of a lock.
func isRefresh(r percolatortest.Request) bool {
	m, ok := r.Message.(*btpb.CheckAndMutateRowRequest)
	return ok && fixture.Sets(m.TrueMutations, "lock")
}
