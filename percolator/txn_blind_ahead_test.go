package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// A blind transaction may start at a timestamp that its client requested before it began.

// aheadTTL is how long values in these tests live, if they expire.
const aheadTTL = time.Hour

// newAheadEnv has a unique index on people/mail, and one on people/code, whose values expire.
func newAheadEnv(t *testing.T) *percolatortest.Env {
	t.Helper()
	s := fixture.Schema()
	for i := range s.Tables {
		if p := &s.Tables[i]; p.Name == "people" {
			p.Indexes = append(p.Indexes, percolator.Index{Name: "code", Column: "code", Unique: true})
			p.Columns = []percolator.ColumnSchema{{Name: "mail"}, {Name: "city"}, {Name: "code", TTL: aheadTTL}}
		}
	}
	return percolatortest.New(t, s, percolatortest.Configure(func(cfg *percolator.Config) {
		longTTL(cfg)
		cfg.Retention = 100 * time.Hour
	}))
}

// requestAhead has a blind transaction of c begin and end, and waits for the start timestamp that
// is requested for the next one.
func requestAhead(t *testing.T, ctx context.Context, c *percolator.Client) {
	t.Helper()
	fixture.Must(t, fixture.MustBegin(t, ctx, c, percolator.Blind()).Rollback(ctx))
	fixture.Eventually(t, "a start timestamp at hand", func() bool {
		n, asking := c.Engine().Clock.Ahead()
		return n >= 1 && !asking
	})
}

// What another row held at a start timestamp from before Begin, and gave up before Begin, is free
// (I2).
func TestBlindTransactionTakesWhatWasGivenUpBeforeItBegan(t *testing.T) {
	t.Parallel()
	mail, code := fixture.Mail, percolator.String("people", "code")
	set := func(c *percolator.Client, ctx context.Context, column percolator.Column[string], row, value string) error {
		return fixture.Update(ctx, c, func(tx *percolator.Txn) error { return column.Set(tx, row, value) })
	}
	remove := func(c *percolator.Client, ctx context.Context, row string) error {
		return fixture.Update(ctx, c, func(tx *percolator.Txn) error { return mail.Delete(tx, row) })
	}
	for name, givenUp := range map[string]struct {
		column percolator.Column[string]
		free   bool // at the start timestamp at hand
		by     func(env *percolatortest.Env, ctx context.Context) error
	}{
		"deleted": {mail, false, func(env *percolatortest.Env, ctx context.Context) error { return remove(env.Client, ctx, "ann") }},
		"changed": {mail, false, func(env *percolatortest.Env, ctx context.Context) error {
			return set(env.Client, ctx, mail, "ann", "another")
		}},
		"deleted by another client": {mail, false, func(env *percolatortest.Env, ctx context.Context) error {
			return remove(env.NewClient(), ctx, "ann")
		}},
		"taken by a third row, and deleted there": {mail, false, func(env *percolatortest.Env, ctx context.Context) error {
			return errors.Join(remove(env.Client, ctx, "ann"), set(env.Client, ctx, mail, "cid", "x"), remove(env.Client, ctx, "cid"))
		}},
		"taken and deleted since": {mail, true, func(env *percolatortest.Env, ctx context.Context) error {
			return errors.Join(set(env.Client, ctx, mail, "ann", "x"), remove(env.Client, ctx, "ann"))
		}},
		"expired": {code, false, func(env *percolatortest.Env, ctx context.Context) error {
			env.Clock.Advance(aheadTTL + time.Minute)
			return nil
		}},
	} {
		for way, take := range blindWays() {
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				env, ctx := newAheadEnv(t), fixture.Context(t)
				if !givenUp.free {
					fixture.Must(t, set(env.Client, ctx, givenUp.column, "ann", "x"))
				}
				requestAhead(t, ctx, env.Client)
				fixture.Must(t, givenUp.by(env, ctx))
				fixture.Must(t, take(ctx, env.Client, func(tx *percolator.Txn) error { return givenUp.column.Set(tx, "bob", "x") }))
				fixture.WantNow(t, ctx, env.Client, givenUp.column.Cell("bob"), "x")
			})
		}
	}
}

// blindWays are the ways to run a blind transaction.
func blindWays() map[string]func(context.Context, *percolator.Client, func(*percolator.Txn) error) error {
	update := func(opts ...percolator.TxnOption) func(context.Context, *percolator.Client, func(*percolator.Txn) error) error {
		return func(ctx context.Context, c *percolator.Client, f func(*percolator.Txn) error) error {
			_, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return f(tx) }, append(opts, percolator.Blind())...)
			return err
		}
	}
	return map[string]func(context.Context, *percolator.Client, func(*percolator.Txn) error) error{
		"Update":                update(),
		"Update with 1 attempt": update(percolator.MaxAttempts(1)),
		"Begin": func(ctx context.Context, c *percolator.Client, f func(*percolator.Txn) error) error {
			tx, err := c.Begin(ctx, percolator.Blind())
			if err != nil {
				return err
			}
			return errors.Join(f(tx), fixture.ErrOf(tx.Commit(ctx)))
		},
	}
}

// What another client has committed to an index entry since is a conflict, which Update repeats: of
// two rows that want a value, one gets it (I2).
func TestBlindTransactionsWantOneValue(t *testing.T) {
	t.Parallel()
	env, ctx := newAheadEnv(t), fixture.Context(t)
	requestAhead(t, ctx, env.Client)
	fixture.Must(t, fixture.Update(ctx, env.NewClient(), func(tx *percolator.Txn) error { return fixture.Mail.Set(tx, "ann", "x") }))
	_, err := env.Client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return fixture.Mail.Set(tx, "bob", "x") }, percolator.Blind())
	fixture.WantErr(t, err, percolator.ErrUnique)
	if got := fixture.ListIndexNow(t, ctx, env.Client, "mail", percolator.All()); got != "x:ann" {
		t.Errorf("the index holds %q", got)
	}
}

// A timestamp at hand leaves a transaction most of half the retention, however long locks live
// (I2).
func TestBlindTransactionAfterAPause(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{20 * time.Second, 40 * time.Second} {
		for way, write := range blindWays() {
			t.Run(fmt.Sprint(pause, ", ", way), func(t *testing.T) {
				t.Parallel()
				percolatortest.Bubble(t, func(t *testing.T) {
					env, ctx := newShortRetentionEnv(t), fixture.Context(t)
					requestAhead(t, ctx, env.Client)
					time.Sleep(pause)
					env.FaultsOf(env.Client).Handle(fixture.AtMost(1, fixture.IsPrewrite, heldFor(12*time.Second)))
					fixture.Must(t, write(ctx, env.Client, func(tx *percolator.Txn) error { return tx.Set(fixture.Cell("r", "c"), []byte("v")) }))
					fixture.WantNow(t, ctx, env.Client, fixture.Cell("r", "c"), "v")
				})
			})
		}
	}
}

// newShortRetentionEnv has locks that live for longer than snapshots.
func newShortRetentionEnv(t *testing.T) *percolatortest.Env {
	t.Helper()
	return fixture.NewEnv(t, percolatortest.Configure(func(cfg *percolator.Config) {
		cfg.LockTTL, cfg.Retention = 10*time.Minute, time.Minute
	}))
}

// A commit whose start timestamp, requested before Begin, becomes too old ends in a conflict (I2).
func TestBlindTransactionThatBecomesTooOldWhileItPrewrites(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env, ctx := newShortRetentionEnv(t), fixture.Context(t)
		slow := func() {
			env.FaultsOf(env.Client).Handle(fixture.AtMost(1, fixture.IsPrewrite, heldFor(28*time.Second)))
		}
		begin := func() *percolator.Txn {
			requestAhead(t, ctx, env.Client)
			time.Sleep(5 * time.Second)
			tx := fixture.MustBegin(t, ctx, env.Client, percolator.Blind())
			fixture.Must(t, tx.Set(fixture.Cell("r", "c"), []byte("v")))
			return tx
		}
		tx := begin()
		slow()
		fixture.WantErr(t, fixture.ErrOf(tx.Commit(ctx)), percolator.ErrConflict)
		fixture.WantNow(t, ctx, env.Client, fixture.Cell("r", "c"), "")

		fixture.Must(t, begin().Rollback(ctx))
		requestAhead(t, ctx, env.Client)
		time.Sleep(5 * time.Second)
		slow()
		_, err := env.Client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Set(fixture.Cell("r", "c"), []byte("v")) }, percolator.Blind())
		fixture.Must(t, err)
		fixture.WantNow(t, ctx, env.Client, fixture.Cell("r", "c"), "v")
	})
}

// heldFor delivers a request after d.
func heldFor(d time.Duration) percolatortest.Action {
	hold := percolatortest.NewHold()
	time.AfterFunc(d, hold.Release)
	return hold
}

// A machine that was suspended learns from the oracle that its timestamps at hand are old (I2,
// I16).
func TestBlindTransactionOfASuspendedClient(t *testing.T) {
	t.Parallel()
	for name, learn := range map[string]func(ctx context.Context, c *percolator.Client) error{
		"it learns of that before the commit": func(ctx context.Context, c *percolator.Client) error {
			return fixture.ErrOf(c.Begin(ctx))
		},
		"it learns of that while it commits": func(context.Context, *percolator.Client) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, ctx := newSuspendedEnv(t), fixture.Context(t)
			requestAhead(t, ctx, env.Client)
			env.Clock.Advance(suspendedRetention/2 + time.Minute)
			fixture.Must(t, learn(ctx, env.Client))
			ts, err := env.Client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Set(fixture.Cell("r", "c"), []byte("v")) }, percolator.Blind())
			if err != nil || ts < tso.At(env.Clock.Now().Add(-time.Minute)) {
				t.Errorf("committed at %v: %v", ts.Time(), err)
			}
		})
	}
}
