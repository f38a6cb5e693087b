package percolatortest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

var amount = percolator.Int64("t", "amount")

// move takes 1 from one of three rows and gives it to another.
func move(ctx context.Context, c *percolator.Client, run int) error {
	_, err := c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		from, to := fmt.Sprint(run%3), fmt.Sprint((run+1)%3)
		have, err := amount.GetMulti(ctx, tx, from, to)
		return errors.Join(err, amount.Set(tx, from, have[from]-1), amount.Set(tx, to, have[to]+1), amount.Set(tx, fmt.Sprint("run ", run), 1))
	})
	return err
}

// A transaction that dies at each of its writes is whole or absent, and there are deaths after
// which it is which, whether or not the program was told.
func TestDieAtEach(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}})
		errs, committed, unknown := []error{nil}, 0, 0
		env.DieAtEach(func(ctx context.Context, run int, c *percolator.Client) error {
			err := move(ctx, c, run)
			if errs = append(errs, err); err != nil && ctx.Err() == nil {
				t.Errorf("run %d failed, and its context has not ended: %v", run, err)
			}
			return err
		}, func(ctx context.Context, run int, c *percolator.Client) error {
			return c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
				have, err := amount.GetMulti(ctx, s, "0", "1", "2", fmt.Sprint("run ", run))
				if sum := have["0"] + have["1"] + have["2"]; sum != 0 {
					t.Errorf("run %d: the amounts add up to %d", run, sum)
				}
				switch done := have[fmt.Sprint("run ", run)] == 1; {
				case done && errs[run] != nil:
					unknown++
				case done:
					committed++
				case errs[run] == nil:
					t.Errorf("run %d was told that it had committed", run)
				}
				return err
			})
		})
		if runs := len(errs) - 1; runs < 9 || committed < 2 || unknown < 1 || committed+unknown > runs-6 {
			t.Errorf("of %d runs %d have committed and %d more without knowing", runs, committed, unknown)
		}
		env.Audit(t)
	})
}

// fatal is a test that ends by Fatal.
type fatal struct {
	testing.TB
	said string
}

func (f *fatal) Fatal(args ...any) {
	f.said = fmt.Sprint(args...)
	runtime.Goexit()
}

func (f *fatal) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

// What ends a test says at which request, and what would test nothing does end it.
func TestDieAtEachFails(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context, int, *percolator.Client) error { return nil }
	moves := func(ctx context.Context, run int, c *percolator.Client) error { return move(ctx, c, run) }
	failed := func(context.Context, int, *percolator.Client) error { return errors.New("failed") }
	for want, steps := range map[string][2]func(context.Context, int, *percolator.Client) error{
		"nothing was written":                             {nothing, nothing},
		"run 1, in which the client has not died: failed": {failed, nothing},
		"run 1, in which the client has died at write 1, which was lost (client-2 #4 CheckAndMutateRow t": {moves, failed},
		"run 3, in which the client has died at write 2, which was lost (client-6": {moves, func(_ context.Context, run int, _ *percolator.Client) error {
			if run < 3 {
				return nil
			}
			return errors.New("failed")
		}},
	} {
		f, ended := &fatal{TB: t}, make(chan struct{})
		go func() {
			defer close(ended)
			percolatortest.New(f, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}}).DieAtEach(steps[0], steps[1])
		}()
		if <-ended; !strings.Contains(f.said, want) {
			t.Errorf("it said %q, want %q", f.said, want)
		}
	}
}

// A program that does again what it was not told of, without looking whether it is done, is caught
// where the answer was lost; one that looks is not.
func TestDieAtEachCatchesWhatIsDoneTwice(t *testing.T) {
	t.Parallel()
	take := func(ctx context.Context, c *percolator.Client, run int, looks bool) error {
		_, err := c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
			id := fmt.Sprint("order ", run)
			have, err := amount.GetMulti(ctx, tx, "stock", id)
			if err != nil || looks && have[id] > 0 {
				return err
			}
			return errors.Join(amount.Set(tx, "stock", have["stock"]-1), amount.Set(tx, id, 1))
		})
		return err
	}
	for _, looks := range []bool{false, true} {
		f, ended := &fatal{TB: t}, make(chan struct{})
		go func() {
			defer close(ended)
			told := map[int]bool{}
			percolatortest.New(f, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}}).DieAtEach(func(ctx context.Context, run int, c *percolator.Client) error {
				err := take(ctx, c, run, looks)
				told[run] = err == nil
				return err
			}, func(ctx context.Context, run int, c *percolator.Client) error {
				if !told[run] {
					if err := take(ctx, c, run, looks); err != nil {
						return err
					}
				}
				return c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
					stock, err := amount.GetOr(ctx, s, "stock", 0)
					if err == nil && stock != int64(-run) {
						err = fmt.Errorf("stock is %d after %d orders", stock, run)
					}
					return err
				})
			})
		}()
		if <-ended; looks != (f.said == "") || !looks && !strings.Contains(f.said, "whose answer was lost") {
			t.Errorf("looks: %v; it said %q", looks, f.said)
		}
	}
}
