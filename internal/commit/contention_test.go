package commit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/internal/model"
)

func conflictOn(row string) error { return &model.ConflictError{Cell: cell(row, "c")} }

// begins begins an attempt in the background, and tells on the channel when it has begun.
func begins(t *testing.T, ctx context.Context, c *contention, last error) chan func(error) {
	begun := make(chan func(error), 1)
	go func() {
		if end, err := c.begin(ctx, last); err == nil {
			begun <- end
		} else if ctx.Err() == nil {
			t.Error(err)
		}
	}()
	synctest.Wait()
	return begun
}

func begun(attempts ...chan func(error)) (n int) {
	for _, a := range attempts {
		n += len(a)
	}
	return n
}

// As many attempts are under way as the limit allows, in the order in which they came, but those
// after a conflict first.
func TestAttemptsQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c contention
		var under []func(error)
		for range firstLimit {
			under = append(under, <-begins(t, t.Context(), &c, nil))
		}
		first, second := begins(t, t.Context(), &c, nil), begins(t, t.Context(), &c, nil)
		again := begins(t, t.Context(), &c, conflictOn("r"))
		for i, want := range []chan func(error){again, first, second} {
			if n := begun(again, first, second); n != i {
				t.Fatalf("%d of three attempts have begun, want %d", n, i)
			}
			under[i](nil)
			synctest.Wait()
			if begun(want) != 1 {
				t.Fatalf("attempt %d has not begun", i)
			}
		}
	})
}

// Attempts after a conflict on the same cell follow one another; others go on.
func TestTurnsAtACell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c contention
		a, b := begins(t, t.Context(), &c, conflictOn("r")), begins(t, t.Context(), &c, conflictOn("r"))
		other, first := begins(t, t.Context(), &c, conflictOn("s")), begins(t, t.Context(), &c, nil)
		if begun(a, other, first) != 3 || begun(b) != 0 {
			t.Fatal("not all but the second of the cell have begun")
		}
		(<-a)(conflictOn("r"))
		synctest.Wait()
		if begun(b) != 1 {
			t.Error("the second of the cell has not begun")
		}
	})
}

// The limit falls where most attempts conflict, to one, and grows where few do and others wait.
func TestLimitAdapts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c contention
		run := func(n int, err error) {
			for range n {
				end, berr := c.begin(t.Context(), nil)
				if berr != nil {
					t.Fatal(berr)
				}
				end(err)
			}
		}
		run(1000, nil)
		if c.attempts.limit != firstLimit {
			t.Errorf("limit %d, although nobody waited", c.attempts.limit)
		}
		run(1000, conflictOn("r"))
		if c.attempts.limit != 1 {
			t.Errorf("limit %d, although all conflict", c.attempts.limit)
		}
		end := <-begins(t, t.Context(), &c, nil)
		waiting := begins(t, t.Context(), &c, nil)
		end(nil)
		(<-waiting)(nil)
		run(fewestEnded, nil)
		if c.attempts.limit != 2 {
			t.Errorf("limit %d, although others waited and none conflicts", c.attempts.limit)
		}
	})
}

// Functions that wait for others' Updates wait for seconds, not for ever.
func TestStalledAttemptsOpenTheGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c contention
		var all []chan func(error)
		for range 8 * firstLimit {
			all = append(all, begins(t, t.Context(), &c, nil))
		}
		for i := range 4 {
			if n := begun(all...); n != firstLimit<<i {
				t.Errorf("%d attempts after %d s without an end", n, i)
			}
			time.Sleep(stalled)
			synctest.Wait()
		}
		cells := []chan func(error){begins(t, t.Context(), &c, conflictOn("r")), begins(t, t.Context(), &c, conflictOn("r"))}
		time.Sleep(stalled)
		synctest.Wait()
		if begun(cells...) != 2 {
			t.Error("a turn that does not end holds up the cell")
		}
	})
}

// Who gives up leaves its place, also if it was just let in.
func TestGivingUpTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := contention{attempts: gate{limit: 1}}
		end, err := c.begin(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			gone, next := begins(t, ctx, &c, conflictOn("r")), begins(t, t.Context(), &c, nil)
			go cancel()
			end(nil)
			synctest.Wait()
			if begun(gone) == 1 {
				(<-gone)(nil)
				synctest.Wait()
			}
			end = <-next
		}
		end(nil)
		if n := c.attempts.running + c.attempts.queued(); n != 0 || !c.cells[cell("r", "c")].idle() {
			t.Errorf("%d attempts are left", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		full := contention{attempts: gate{limit: 1, running: 1}}
		if _, err := full.begin(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want the context's error", err)
		}
	})
}

// However many cells are contended, a client remembers a few, the most contended ones.
func TestContendedCellsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c Committer
		for i := range 10 * contendedCells {
			c.contention.note(conflictOn(fmt.Sprint(i)))
			c.contention.note(conflictOn("hot"))
		}
		c.contention.note(errors.New("no conflict"))
		if n := len(c.contention.cells); n != contendedCells {
			t.Errorf("%d cells", n)
		}
		s := c.Contention()
		if len(s.Cells) != contendedShown || s.Cells[0].Cell != cell("hot", "c").String() || s.Cells[0].Conflicts != 10*contendedCells {
			t.Errorf("%+v", s)
		}
		for range 20 {
			time.Sleep(contendedHalf)
			c.contention.note(conflictOn("new"))
		}
		if cells := c.Contention().Cells; len(cells) != 1 || cells[0].Cell != cell("new", "c").String() {
			t.Errorf("%+v", cells)
		}
	})
}
