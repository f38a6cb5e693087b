package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// bank is a load on table t: transfers between accounts, of which an observer copies what each has
// written last.
type bank struct {
	*testing.T
	*percolatortest.Env
	ctx  context.Context
	done sync.WaitGroup

	transfers, reads int
	mu               sync.Mutex
}

const (
	bankAccounts = 20
	bankDeposit  = 100
)

func account(i int, column string) percolator.Cell {
	return fixture.Cell(fmt.Sprintf("account-%02d", i), column)
}

func (b *bank) open() {
	fixture.Must(b, fixture.Update(b.ctx, b.Client, func(tx *percolator.Txn) (err error) {
		for i := range bankAccounts {
			err = errors.Join(err, tx.Set(account(i, "balance"), []byte(strconv.Itoa(bankDeposit))))
		}
		return err
	}))
}

// run works until ctx ends.
func (b *bank) run(ctx context.Context, work func(ctx context.Context, c *percolator.Client) error, count *int) {
	c := b.NewClient(fixture.ShortRetention)
	b.done.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(fixture.Of(0, 400*time.Millisecond)) {
			switch err := work(b.ctx, c); {
			case err == nil:
				b.mu.Lock()
				*count++
				b.mu.Unlock()
			case !errors.Is(err, percolator.ErrConflict) && !errors.Is(err, percolator.ErrSnapshotTooOld): // the clock is put forward
				b.Error(err)
				return
			}
		}
	})
}

func moveMoney(ctx context.Context, c *percolator.Client) error {
	from, to, amount := rand.N(bankAccounts), rand.N(bankAccounts), rand.N(10)
	return fixture.Update(ctx, c, func(tx *percolator.Txn) error {
		for i, add := range map[int]int{from: -amount, to: amount} {
			if from == to {
				add = 0
			}
			v, err := tx.Get(ctx, account(i, "balance"))
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(string(v))
			if err != nil {
				return err
			}
			if err := errors.Join(tx.Set(account(i, "balance"), []byte(strconv.Itoa(n+add))), tx.Set(account(i, "seen"), []byte(strconv.Itoa(n+add)))); err != nil {
				return err
			}
		}
		return nil
	})
}

// sum checks a snapshot: no money is made or lost.
func sum(ctx context.Context, c *percolator.Client) error {
	s, err := c.Snapshot(ctx)
	if err != nil {
		return err
	}
	total := 0
	for i := range bankAccounts {
		v, err := s.Get(ctx, account(i, "balance"))
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(string(v))
		total += n
	}
	if total != bankAccounts*bankDeposit {
		return fmt.Errorf("the accounts hold %d", total)
	}
	return nil
}

// bankSchema is fixture.JournalSchema for a machine that has a lot to do.
func bankSchema(without bool) *percolator.Schema {
	s := fixture.JournalSchema(without)
	s.Timing = percolator.Timing{RequestLifetime: 3 * time.Second, MetaMaxAge: 3 * time.Second}
	return s
}

// TestUpgradeUnderLoad: a populated instance gets a journal, loses it and gets it again, while
// clients write and die, observers run and the collector collects. No transaction is lost or half
// done, no observer misses a change, and in the end the journal leads to everything.
func TestUpgradeUnderLoad(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testUpgradeUnderLoad)
}

func testUpgradeUnderLoad(t *testing.T) {
	env := percolatortest.New(t, bankSchema(true), fixture.ShortRetention,
		percolatortest.Emulator(emulator.OnDisks(&emulator.Disks{Latency: 5 * time.Millisecond}))) // or the load takes no time
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	b := &bank{T: t, Env: env, ctx: ctx}
	b.open()
	registry := observers.NewRegistry()
	registry.Observe("copy", "t", "seen", func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		if ch.Cell.Row == "poison" {
			return errors.New("poison")
		}
		v, err := tx.Get(ctx, ch.Cell)
		if err != nil {
			return err
		}
		return tx.Set(percolator.Cell{Table: "t", Row: ch.Cell.Row, Column: "copy"}, v)
	})
	registry.Observe("poked", "t", "poke", func(context.Context, *percolator.Txn, observers.Change) error { return nil })
	worker, err := observers.NewWorker(env.Client, registry, observers.Config{Concurrency: 4, MaxAttempts: 1, DisableCollection: true, SweepInterval: -1})
	fixture.Must(t, err)
	working, stopWorker := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- worker.Run(working) }()
	loading, stop := context.WithCancel(ctx)
	for range 3 {
		b.run(loading, moveMoney, &b.transfers)
	}
	b.run(loading, sum, &b.reads)

	more := func(what string) {
		b.mu.Lock()
		transfers, reads := b.transfers, b.reads
		b.mu.Unlock()
		fixture.Eventually(t, what, func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.transfers >= transfers+20 && b.reads >= reads+2 || t.Failed()
		})
	}
	crash := func(n int) {
		fixture.CrashAfter(t, env, fixture.IsCommit, fmt.Sprintf("crash-%d", n), fmt.Sprintf("crash-%d-too", n))
		fixture.CrashAfter(t, env, nil, fmt.Sprintf("abort-%d", n), fmt.Sprintf("abort-%d-too", n))
	}
	fixture.Put(t, ctx, env.Client, "poison", "seen", "1")
	crash(0)
	more("transfers without a journal")
	for round := 1; round <= 2; round++ {
		fixture.Apply(t, ctx, env, bankSchema(false))
		crash(10 * round)
		done := fixture.Sweep(t, ctx, env.Client, model.SweepConfig{})
		if done.Building == "" || !env.Client.Engine().Meta.ByJournal() {
			t.Errorf("the journal is not ready: %+v", done)
		}
		more("transfers with a journal")
		crash(10*round + 1)
		env.Clock.Advance(fixture.PastRetention)
		more("transfers after a while")
		env.Clock.Advance(fixture.PastRetention)
		fixture.Collect(t, ctx, env.Client)
		if round == 1 {
			fixture.Apply(t, ctx, env, bankSchema(true))
			crash(10*round + 2)
			more("transfers without it again")
		}
	}
	stop()
	b.done.Wait()
	env.Clock.Advance(fixture.LockTTL)
	fixture.Must(t, worker.WaitIdle(ctx))
	fixture.Must(t, sum(ctx, env.Client))
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	for i := range bankAccounts {
		v, err := s.Get(ctx, account(i, "seen"))
		if err == nil {
			fixture.WantValue(t, ctx, s, account(i, "copy"), string(v))
		}
	}
	for _, n := range []int{0, 10, 11, 12, 20, 21} {
		fixture.WantValue(t, ctx, s, fixture.Cell(fmt.Sprintf("crash-%d-too", n), "c"), "crashed")
	}
	var parked []model.ObserverState
	for list, err := range journal.ListParked(ctx, env.Client.Engine().Store) {
		fixture.Must(t, err)
		parked = append(parked, list...)
	}
	if len(parked) != 1 || parked[0].Cell.Row != "poison" || parked[0].Observer != "copy" {
		t.Errorf("parked: %+v", parked)
	}
	stopWorker()
	fixture.Must(t, <-worked)

	env.Clock.Advance(2 * time.Hour)
	fixture.Collect(t, ctx, env.Client)
	if done := fixture.Sweep(t, ctx, env.Client, model.SweepConfig{}); done.Missed.Sum() != 0 {
		t.Errorf("missed: %+v", done)
	}
	env.Audit(t, fixture.Collected)
	t.Logf("%d transfers, %d checks", b.transfers, b.reads)
}
