package backup_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// While a backup is taken others move money between accounts of two tables. The restored store has
// all of it.
func TestTransfersDuringTheBackup(t *testing.T) {
	t.Parallel()
	const accounts, balance = 40, 100
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "a"}, {Name: "b"}}})
	v := values{}
	account := func(i int) percolator.Cell { return cell([]string{"a", "b"}[i%2], fmt.Sprintf("%03d", i), "balance") }
	for i := range accounts {
		v[account(i)] = strconv.Itoa(balance)
	}
	set(t, env.Client, v)

	ctx, stop := context.WithCancel(testContext(t))
	defer stop()
	moved := make(chan struct{}, 1) // somebody has committed since it was last looked at
	var movers sync.WaitGroup
	for range 4 {
		movers.Go(func() {
			for ctx.Err() == nil {
				_, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
					from, to := account(rand.IntN(accounts)), account(rand.IntN(accounts))
					if from == to {
						return nil
					}
					got, err := tx.GetMulti(ctx, from, to)
					if err != nil {
						return err
					}
					x, _ := strconv.Atoi(string(got[0]))
					y, _ := strconv.Atoi(string(got[1]))
					return errors.Join(tx.Set(from, []byte(strconv.Itoa(x-1))), tx.Set(to, []byte(strconv.Itoa(y+1))))
				})
				if err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
				select {
				case moved <- struct{}{}:
				default:
				}
			}
		})
	}
	store := backup.Dir(t.TempDir())
	opts := small
	opts.Concurrency = 1
	opts.Progress = func(backup.Progress) { // between any two chunks money moves
		for range 3 {
			select {
			case <-moved:
			case <-ctx.Done():
			}
		}
	}
	m := run(t, env.Client, store, opts)
	stop()
	movers.Wait()
	c := restored(t, env, store)
	sum, changed := 0, false
	for _, value := range contents(t, c) {
		n, err := strconv.Atoi(value)
		must(t, err)
		sum += n
		changed = changed || n != balance
	}
	if sum != accounts*balance || m.Total.Values != accounts {
		t.Errorf("%d in %d accounts, want %d", sum, m.Total.Values, accounts*balance)
	}
	equal(t, contents(t, c), contents(t, env.Client, percolator.AsOfTimestamp(m.Snapshot)))
}

// A collection with the clock far beyond the retention takes nothing that the backup needs, and
// takes it afterwards.
func TestCollectionDuringTheBackup(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCollectionDuringTheBackup)
}

func testCollectionDuringTheBackup(t *testing.T) {
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}, Timing: quick})
	before := values{}
	for i := range 60 {
		before[cell("t", fmt.Sprintf("%03d", i), "c")] = fmt.Sprintf("before %060d", i)
	}
	set(t, env.Client, before)
	store, once := backup.Dir(t.TempDir()), sync.Once{}
	opts := small
	opts.Concurrency, opts.HoldTTL = 1, model.MaxHoldTTL
	opts.Progress = func(at backup.Progress) {
		if at.Chunks == 0 {
			return
		}
		once.Do(func() {
			after := values{}
			for at := range before {
				after[at] = "after"
			}
			set(t, env.Client, after)
			env.Clock.Advance(5 * model.MaxHoldTTL / 7) // 5 days
			fixture.Collect(t, testContext(t), env.Client)
		})
	}
	run(t, env.Client, store, opts)
	equal(t, contents(t, restored(t, env, store)), before)
}

// If the hold has ended, the backup says so and is not completed; a restart begins with a new
// snapshot.
func TestHoldEnds(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for _, when := range []string{"while it runs", "before it is resumed"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}, Timing: quick})
				v := values{}
				for i := range 60 {
					v[cell("t", fmt.Sprintf("%03d", i), "c")] = fmt.Sprintf("%060d", i)
				}
				set(t, env.Client, v)
				store, once := backup.Dir(t.TempDir()), sync.Once{}
				ctx, interrupt := context.WithCancel(testContext(t))
				defer interrupt()
				opts := small
				opts.Concurrency = 1
				opts.Progress = func(at backup.Progress) {
					if at.Chunks == 0 {
						return
					}
					once.Do(func() {
						if when != "while it runs" {
							interrupt()
							return
						}
						holds, err := admin.New(env.Client).Holds(ctx)
						must(t, err)
						must(t, admin.New(env.Client).ReleaseHold(ctx, holds[0]))
					})
				}
				_, err := backup.Run(ctx, env.Client, store, opts)
				if when == "while it runs" {
					expect(t, err, backup.ErrHoldGone)
				} else {
					expect(t, err, context.Canceled)
					env.Clock.Advance(24 * model.MaxHoldTTL / 7) // beyond its 6 hours
					fixture.Collect(t, testContext(t), env.Client)
				}
				_, err = backup.Run(testContext(t), env.Client, store, small)
				expect(t, err, backup.ErrHoldGone)
				_, err = backup.ReadManifest(testContext(t), store)
				expect(t, err, backup.ErrIncomplete)
				_, err = backup.Verify(testContext(t), store, nil)
				expect(t, err, backup.ErrIncomplete)
				again := small
				again.Restart = true
				m := run(t, env.Client, store, again)
				equal(t, contents(t, restored(t, env, store)), v)
				names, err := store.List(testContext(t), "chunks/")
				if err != nil || len(names) != len(m.Chunks) {
					t.Errorf("%d chunks are stored, the manifest has %d: %v", len(names), len(m.Chunks), err)
				}
			})
		})
	}
}

// A backup during which a column becomes observed and is backfilled can be restored, or is refused.
func TestSchemaGrowsMeanwhile(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, plain)
	c, ctx := env.Client, testContext(t)
	set(t, c, plainRows(60))
	store := newMemory()
	var once sync.Once
	opts := small
	opts.Concurrency = 1
	opts.Progress = func(at backup.Progress) {
		once.Do(func() {
			next := &percolator.Schema{Tables: []percolator.Table{{Name: "t", Observed: []string{"c"}}}, Timing: quick}
			must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, next, env.Options()...))
			for len(c.Schema().Tables[0].Observed) == 0 { // a client adopts it when it begins something
				must(t, c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
					_, err := s.Get(ctx, cell("t", "0000", "c"))
					return err
				}))
			}
			_, err := admin.New(c).BackfillObserver(ctx, "t", "c", "o", admin.ObserverOptions{})
			must(t, err)
			_, err = c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
				ack, err := (*commit.Txn)(tx).Acknowledge(ctx, cell("t", "0059", "c"), "o", []string{"o"})
				if err == nil && !ack.Run {
					err = errors.New("nothing to do")
				}
				return err
			})
			must(t, err)
			must(t, c.Flush(ctx))
		})
	}
	m, err := backup.Run(ctx, c, store, opts)
	if err != nil {
		t.Skipf("refused: %v", err)
	}
	v, err := backup.Verify(ctx, store, nil)
	must(t, err)
	t.Logf("verified: %d problems, notified %d", len(v.Problems), m.Total.Notified)
	g := newTarget(t, env)
	r := g.client(store)
	must(t, errOf(backup.Restore(ctx, r, store, backup.RestoreOptions{})))
}

// A backup into a store that cannot be written leaves no hold, which would stop collection for six
// hours.
func TestUnwritableStoreLeavesNoHold(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, plain)
	ctx := testContext(t)
	file := t.TempDir() + "/file"
	must(t, os.WriteFile(file, nil, 0o600))
	full := &hooked{newMemory(), func(op, name string) error {
		if op == "put" {
			return errors.New("no space left on device")
		}
		return nil
	}}
	for range 3 {
		_, err := backup.Run(ctx, env.Client, full, backup.Options{})
		if err == nil {
			t.Fatal("no error")
		}
	}
	holds, err := admin.New(env.Client).Holds(ctx)
	must(t, err)
	if len(holds) > 0 {
		t.Errorf("%d holds are left, until %v", len(holds), holds[0].Expires.Time())
	}
}

// A commit that was acknowledged before the snapshot is in the backup as a whole, although not one
// secondary has been committed yet.
func TestAcknowledgedCommitIsInTheBackup(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, plain)
	ctx := testContext(t)
	writer, store := env.NewClient(), newMemory()
	env.FaultsOf(writer).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows && r.Table == "t" {
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	want := values{cell("t", "a", "c"): "1", cell("t", "b", "c"): "2", cell("t", "z", "c"): "3"}
	ts, err := writer.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		for at, value := range want {
			if err := tx.Set(at, []byte(value)); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	if m := run(t, env.Client, store, small); m.Snapshot < ts {
		t.Fatalf("the snapshot %d is older than the commit %d", m.Snapshot, ts)
	}
	equal(t, contents(t, restored(t, env, store)), want)
}
