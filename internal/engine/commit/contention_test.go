package commit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
)

func conflictOn(row string) error { return &model.ConflictError{Cell: cell(row, "c")} }

// begins begins an attempt in the background, after a conflict on each of the rows, and tells on
// the channel when it has started.
func begins(t *testing.T, ctx context.Context, c *contention, rows ...string) chan func(error) {
	started := make(chan func(error), 1)
	var cells []model.Cell
	for _, row := range rows {
		cells = contested(cells, conflictOn(row))
	}
	go func() {
		if _, end, err := c.begin(ctx, service{}, cells, len(cells) > 0); err == nil {
			started <- untimed(end)
		} else if ctx.Err() == nil {
			t.Error(err)
		}
	}()
	synctest.Wait()
	return started
}

func started(attempts ...chan func(error)) (n int) {
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
			under = append(under, <-begins(t, t.Context(), &c))
		}
		first, second := begins(t, t.Context(), &c), begins(t, t.Context(), &c)
		again := begins(t, t.Context(), &c, "r")
		for i, want := range []chan func(error){again, first, second} {
			if n := started(again, first, second); n != i {
				t.Fatalf("%d of three attempts have started, want %d", n, i)
			}
			under[i](nil)
			synctest.Wait()
			if started(want) != 1 {
				t.Fatalf("attempt %d has not started", i)
			}
		}
	})
}

// Attempts after a conflict on the same cell follow one another; others go on.
func TestTurnsAtACell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c contention
		a, b := begins(t, t.Context(), &c, "r"), begins(t, t.Context(), &c, "r")
		other, first := begins(t, t.Context(), &c, "s"), begins(t, t.Context(), &c)
		if started(a, other, first) != 3 || started(b) != 0 {
			t.Fatal("not all but the second of the cell have started")
		}
		(<-a)(conflictOn("r"))
		synctest.Wait()
		if started(b) != 1 {
			t.Error("the second of the cell has not started")
		}
	})
}

// An Update that has conflicted on several cells has a turn at each, and Updates of the same cells
// never wait for each other in a circle.
func TestTurnsAtSeveralCells(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c contention
		ab, ba := begins(t, t.Context(), &c, "a", "b"), begins(t, t.Context(), &c, "b", "a")
		b := begins(t, t.Context(), &c, "b")
		for i, want := range []chan func(error){ab, b, ba} {
			if started(ab, b, ba) != 1 || started(want) != 1 {
				t.Fatalf("attempt %d is not the only one that has started", i)
			}
			(<-want)(nil)
			synctest.Wait()
		}
		if c.held != 0 {
			t.Errorf("%d turns are left", c.held)
		}
		var cells []model.Cell
		for i := range turnsAtOnce {
			cells = contested(cells, conflictOn(fmt.Sprint(i)))
		}
		if len(cells) != turnsAtOnce || len(contested(cells, conflictOn("3"))) != turnsAtOnce || len(contested(cells, conflictOn("x"))) != 1 {
			t.Errorf("%d cells, then %v", len(cells), contested(cells, conflictOn("x")))
		}
	})
}

// Who waits in a long queue holds up nobody at the other cells that it has conflicted on. Then it
// goes before those who came later.
func TestALongQueueHoldsUpNoOtherCell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c contention
		hot := []chan func(error){begins(t, t.Context(), &c, "z"), begins(t, t.Context(), &c, "z")}
		both := begins(t, t.Context(), &c, "a", "z")
		next, last := begins(t, t.Context(), &c, "z"), begins(t, t.Context(), &c, "z")
		for range 10 {
			a := begins(t, t.Context(), &c, "a")
			if len(a) != 1 {
				t.Fatal("an attempt waits for one that waits for another cell")
			}
			(<-a)(nil)
			if err := c.check(new(turns), 9, []*Write{{Cell: cell("a", "c")}}); err != nil {
				t.Fatal(err)
			}
		}
		for i, want := range append(hot, next, both, last) {
			synctest.Wait()
			if len(want) != 1 {
				t.Fatalf("attempt %d has not started", i)
			}
			(<-want)(nil)
		}
		ctx, cancel := context.WithCancel(t.Context())
		turn, next := <-begins(t, t.Context(), &c, "z"), begins(t, t.Context(), &c, "z")
		begins(t, ctx, &c, "a", "z")
		cancel()
		synctest.Wait()
		turn(nil)
		(<-next)(nil)
		for row, e := range c.cells {
			if !e.idle() || c.held != 0 {
				t.Errorf("%v: %d have a turn, %d wait", row, e.turns.running, e.turns.queued())
			}
		}
	})
}

// An attempt that writes a cell at which another has its turn ends with a conflict that says so and
// names no transaction, unless the turn lasts too long.
func TestCommitsRespectTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c contention
		write := func(row string) []*Write { return []*Write{{Cell: cell(row, "c")}} }
		c.note(&model.ConflictError{Cell: cell("r", "c"), OtherTS: 7})
		none := new(turns)
		if err := c.check(none, 9, write("r")); err != nil {
			t.Errorf("%v, although nobody has a turn", err)
		}
		turn := <-begins(t, t.Context(), &c, "r")
		var conflict *model.ConflictError
		if err := c.check(none, 9, write("r")); !errors.As(err, &conflict) || !errors.Is(err, model.ErrConflict) || conflict.Cell.Row != "r" || conflict.StartTS != 9 || conflict.OtherTS != 0 || conflict.Locked || !conflict.GaveWay {
			t.Errorf("%v, want the conflict of the cell", err)
		}
		for name, err := range map[string]error{
			"of another cell":        c.check(none, 9, write("s")),
			"of the turn's holder":   c.check(&turns{cells: []model.Cell{cell("r", "c")}}, 9, write("r")),
			"that respects no turns": c.check(nil, 9, write("r")),
		} {
			if err != nil {
				t.Errorf("a commit %s: %v", name, err)
			}
		}
		waiting := begins(t, t.Context(), &c, "r")
		time.Sleep(stalled)
		synctest.Wait()
		if err := c.check(none, 9, write("r")); err != nil || started(waiting) != 1 {
			t.Errorf("a turn that does not end holds up the cell: %v", err)
		}
		turn(nil)
		(<-waiting)(nil)
		if err := c.check(none, 9, write("r")); err != nil {
			t.Errorf("%v, although the turns are over", err)
		}
	})
}

// The limit falls where most attempts conflict, but not to nothing, and grows where few do and
// others wait.
func TestLimitAdapts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c contention
		run := func(n int, err error) {
			for range n {
				_, end, berr := c.begin(t.Context(), service{}, nil, false)
				if berr != nil {
					t.Fatal(berr)
				}
				end(0, err)
			}
		}
		run(1000, nil)
		if c.attempts.limit != firstLimit {
			t.Errorf("limit %d, although nobody waited", c.attempts.limit)
		}
		run(1000, conflictOn("r"))
		if c.attempts.limit != fewestAttempts {
			t.Errorf("limit %d, although all conflict", c.attempts.limit)
		}
		ended := c.sample.ended
		held, end, err := c.begin(t.Context(), service{}, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		held.gaveWay.Store(true)
		if end(0, conflictOn("r")); c.sample.ended != ended {
			t.Error("an attempt that was sent into a queue counts")
		}
		c.sample.crowded = true
		run(fewestAttempts, nil)
		if c.attempts.limit <= fewestAttempts {
			t.Errorf("limit %d, although others waited and none conflicts", c.attempts.limit)
		}
	})
}

// Free cells let the limit grow as long as commits take as long as ever. Where they wait for a
// processor, or for the store, more attempts at once only take longer, and a hot cell waits among
// them: then it stays where they take about twice as long.
func TestLimitStopsWhereCommitsTakeLonger(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		takes       func(limit int) time.Duration
		least, most int
	}{
		"as long as ever": {func(int) time.Duration { return 5 * time.Millisecond }, mostAttempts, mostAttempts},
		"two processors":  {func(limit int) time.Duration { return time.Duration(limit) * 100 * time.Microsecond }, firstLimit, 3 * firstLimit},
		"a store for 500 at once": {func(limit int) time.Duration {
			return max(5*time.Millisecond, time.Duration(limit)*10*time.Microsecond)
		}, 500, 1500},
		"it tries none": {func(int) time.Duration { return 0 }, mostAttempts, mostAttempts},
	} {
		c := contention{attempts: gate{limit: firstLimit}}
		for range 2_000 {
			takes := of.takes(c.attempts.limit)
			for range c.attempts.limit {
				c.sample.crowded = true
				c.adapt(takes, false)
			}
		}
		if n := max(c.attempts.limit, c.probing); n < of.least || n > of.most {
			t.Errorf("%s: limit %d, want %d to %d", name, n, of.least, of.most)
		}
	}
}

// Transactions that become larger take longer: the limit recovers.
func TestLimitRecovers(t *testing.T) {
	t.Parallel()
	c, lowest := contention{attempts: gate{limit: firstLimit}}, mostAttempts
	for sample := range 1_000 {
		takes := 5 * time.Millisecond
		if sample >= 500 {
			takes = 50 * time.Millisecond
		}
		for range c.attempts.limit {
			c.sample.crowded = true
			c.adapt(takes, false)
		}
		if sample > 500 && sample < 530 {
			lowest = min(lowest, c.attempts.limit)
		}
	}
	if lowest != firstLimit {
		t.Errorf("limit %d, soon after commits have become slow", lowest)
	}
	if n := max(c.attempts.limit, c.probing); n != mostAttempts {
		t.Errorf("limit %d in the end", n)
	}
}

// untimed ends attempts that count for no time.
func untimed(end func(time.Duration, error)) func(error) {
	return func(err error) { end(0, err) }
}

// Functions that wait for others' Updates wait for seconds, not for ever.
func TestStalledAttemptsOpenTheGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c contention
		var all []chan func(error)
		for range 8 * firstLimit {
			all = append(all, begins(t, t.Context(), &c))
		}
		for i := range 4 {
			if n := started(all...); n != firstLimit<<i {
				t.Errorf("%d attempts after %d s without an end", n, i)
			}
			time.Sleep(stalled)
			synctest.Wait()
		}
		cells := []chan func(error){begins(t, t.Context(), &c, "r"), begins(t, t.Context(), &c, "r")}
		time.Sleep(stalled)
		synctest.Wait()
		if started(cells...) != 2 {
			t.Error("a turn that does not end holds up the cell")
		}
	})
}

// While most attempts are in Begin or Commit, the gate does not open. Those of Updates within
// others have not passed it.
func TestSlowCommitsDoNotOpenTheGate(t *testing.T) {
	t.Parallel()
	const slowCommit = 10 * stalled
	for name, of := range map[string]struct {
		slow, nested int
		opens        time.Duration
	}{
		"most":        {firstLimit/2 + 1, 0, slowCommit},
		"one":         {1, 0, stalled},
		"many nested": {1, firstLimit, stalled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var c contention
				var all []chan func(error)
				var commits sync.WaitGroup
				defer commits.Wait()
				for i := range of.slow + of.nested {
					commits.Go(func() { c.during(i < of.slow, func() { time.Sleep(slowCommit) }) })
				}
				for range 2 * firstLimit {
					all = append(all, begins(t, t.Context(), &c))
				}
				time.Sleep(of.opens - time.Millisecond)
				synctest.Wait()
				if n := started(all...); n != firstLimit {
					t.Errorf("%d attempts have started before %v", n, of.opens)
				}
				time.Sleep(2 * stalled)
				synctest.Wait()
				if n := started(all...); n != 2*firstLimit {
					t.Errorf("%d attempts have started soon after %v", n, of.opens)
				}
			})
		})
	}
}

// overrun has Updates with 10 s each come, as many at once and then one every so often, while one
// attempt, of a second, fits at once; and returns how many attempts were cut short, and how many
// Updates committed in the last minute.
func overrun(t *testing.T, atOnce int, every time.Duration) (cut, committed int64) {
	t.Helper()
	var short, ok atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		c := contention{attempts: gate{limit: 1}, quick: time.Second}
		began := time.Now()
		update := func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			held, end, err := c.begin(ctx, service{}, nil, false)
			switch {
			case errors.Is(err, context.DeadlineExceeded):
				return
			case err != nil:
				t.Error(err)
				return
			}
			held.gaveWay.Store(true) // so that the limit stays
			select {
			case <-time.After(time.Second):
				if end(0, nil); time.Since(began) > time.Minute {
					ok.Add(1)
				}
			case <-ctx.Done():
				end(0, ctx.Err())
				short.Add(1)
			}
		}
		var all sync.WaitGroup
		for range atOnce {
			all.Go(update)
		}
		for time.Since(began) < 2*time.Minute {
			all.Go(update)
			time.Sleep(every)
		}
		all.Wait()
	})
	return short.Load(), ok.Load()
}

// However many Updates come, few attempts are made that their time is too short for.
func TestLateUpdatesMakeNoAttempt(t *testing.T) {
	t.Parallel()
	if cut, committed := overrun(t, 100, 2*time.Second); cut > 2 || committed < 29 {
		t.Errorf("after a surge %d attempts were cut short, and %d Updates committed in a minute, for 30 who came", cut, committed)
	}
	if cut, committed := overrun(t, 0, 300*time.Millisecond); cut > 2 || committed < 58 {
		t.Errorf("of three times as many Updates as fit %d attempts were cut short, and %d committed in a minute", cut, committed)
	}
}

// Who need not wait is not late, however little time there is, nor is whoever has most of it left.
func TestUpdatesThatNeedNotWaitAreNotLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := contention{attempts: gate{limit: 1}, took: time.Hour}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		_, end, err := c.begin(ctx, service{}, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		next := begins(t, ctx, &c)
		time.Sleep(2 * time.Second)
		end(0, nil)
		synctest.Wait()
		if started(next) != 1 {
			t.Error("an Update that has half of its time left counts as late")
		}
	})
}

// Who gives up leaves its place, also if it was just let in.
func TestGivingUpTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := contention{attempts: gate{limit: 1}}
		_, timed, err := c.begin(t.Context(), service{}, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		end := untimed(timed)
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			gone, next := begins(t, ctx, &c, "r"), begins(t, t.Context(), &c)
			go cancel()
			end(nil)
			synctest.Wait()
			if started(gone) == 1 {
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
		if _, _, err := full.begin(ctx, service{}, nil, false); !errors.Is(err, context.Canceled) {
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

// Operators see which observer's runs conflict, not the reserved column.
func TestContendedAcknowledgment(t *testing.T) {
	t.Parallel()
	var c Committer
	c.contention.note(&model.ConflictError{Cell: cell("r", layout.AckColumn("c", "index"))})
	if cells := c.Contention().Cells; len(cells) != 1 || cells[0].Cell != cell("r", "c").String()+", acknowledgment of index" {
		t.Errorf("%+v", cells)
	}
}

// Where a turn lasts too long others pass it by, but one at a time again as soon as it ends or
// those who came with them have left.
func TestTurnsCloseAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c contention
		var all []chan func(error)
		for range 20 {
			all = append(all, begins(t, t.Context(), &c, "r"))
		}
		time.Sleep(3 * stalled)
		synctest.Wait()
		turns := &c.cells[cell("r", "c")].turns
		if turns.running != 8 {
			t.Fatalf("%d have a turn after 3 s", turns.running)
		}
		for i := 1; i < 8; i++ { // the first one stays
			(<-all[i])(nil)
		}
		synctest.Wait()
		for i := 8; i < 12; i++ {
			if turns.running != 2 || len(all[i]) != 1 {
				t.Errorf("%d have a turn, one of whom does not end; %d: %d", turns.running, i, len(all[i]))
			}
			(<-all[i])(nil)
			synctest.Wait()
		}
		(<-all[0])(nil)
		for i := 12; i < 20; i++ {
			synctest.Wait()
			if turns.running != 1 || len(all[i]) != 1 {
				t.Errorf("%d have a turn", turns.running)
			}
			(<-all[i])(nil)
		}
	})
}

// A burst at many cells leaves few of them behind.
func TestCellsOfABurstAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := contention{attempts: gate{limit: mostAttempts}}
		var ends []func(error)
		for i := range 10 * contendedCells {
			_, end, err := c.begin(t.Context(), service{}, contested(nil, conflictOn(fmt.Sprint(i))), true)
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, untimed(end))
		}
		for _, end := range ends {
			end(nil)
		}
		if n := len(c.cells); n > contendedCells || c.held != 0 {
			t.Errorf("%d cells, %d turns", n, c.held)
		}
	})
}

// Who waits learns at once that the client is closed.
func TestClosingEndsTheQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c contention
		closed := make(chan struct{})
		end := <-begins(t, t.Context(), &c, "r")
		go close(closed)
		if _, _, err := c.begin(t.Context(), service{closed: closed}, contested(nil, conflictOn("r")), true); !errors.Is(err, model.ErrClosed) {
			t.Errorf("%v, want ErrClosed", err)
		}
		if end(nil); c.attempts.running+c.attempts.queued()+c.held != 0 {
			t.Error("something is left")
		}
	})
}

// A conflict that an application made up, without a cell, has no queue.
func TestConflictsWithoutACell(t *testing.T) {
	t.Parallel()
	if cells := contested(nil, new(model.ConflictError)); len(cells) != 0 {
		t.Errorf("%v", cells)
	}
}

// takesTurn has another attempt take the turn at a row.
func takesTurn(t *testing.T, c *Committer, row string) func(error) {
	t.Helper()
	_, end, err := c.contention.begin(t.Context(), service{}, contested(nil, conflictOn(row)), true)
	if err != nil {
		t.Fatal(err)
	}
	return untimed(end)
}

// whenQueued calls f when an Update waits.
func whenQueued(c *Committer, f func()) {
	go func() {
		for c.Contention().Waiting == 0 {
			time.Sleep(time.Millisecond)
		}
		f()
	}()
}

// An Update that waits at a cell, to which it has given way, ends with its context or its client,
// and says why; so it does however often it is asked to.
func TestUpdatesThatGaveWayEnd(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(h *history, cancel context.CancelFunc){
		"with the context": func(_ *history, cancel context.CancelFunc) { cancel() },
		"with the client":  func(h *history, _ context.CancelFunc) { h.c.Store.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHistory(t, layertest.StartEmulator(t), "i")
			end := takesTurn(t, h.c, "r")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			whenQueued(h.c, func() { stop(h, cancel) })
			runs := 0
			_, attempts, err := h.c.update(ctx, func(ctx context.Context, tx *Txn) error {
				runs++
				return tx.Set(cell("r", "c"), nil)
			}, TxnOptions{})
			if !errors.Is(err, model.ErrConflict) || errors.Is(err, model.ErrLocked) || !errors.Is(err, context.Canceled) && !errors.Is(err, model.ErrClosed) {
				t.Error(err)
			}
			if !strings.Contains(err.Error(), "gave way") || runs != 1 || attempts != 1 {
				t.Errorf("%d runs, %d attempts: %v", runs, attempts, err)
			}
			end(nil)
			if s := h.c.Contention(); s.Attempts+s.Waiting != 0 || h.c.contention.held != 0 {
				t.Errorf("%+v, %d turns", s, h.c.contention.held)
			}
		})
	}
}

// An Update that finds somebody's turn at another cell each time gives way a few times, not for
// ever.
func TestUpdatesGiveWayAFewTimes(t *testing.T) {
	t.Parallel()
	h := newHistory(t, layertest.StartEmulator(t), "i")
	var ends []func(error)
	runs := 0
	_, _, err := h.c.update(h.ctx, func(ctx context.Context, tx *Txn) error {
		row := fmt.Sprint(runs)
		end := takesTurn(t, h.c, row)
		if runs++; runs <= mostWays {
			whenQueued(h.c, func() { end(nil) })
		} else {
			ends = append(ends, end)
		}
		if runs > 3*mostWays {
			return errors.New("it does not end")
		}
		return tx.Set(cell(row, "c"), nil)
	}, TxnOptions{})
	if err != nil || runs != mostWays+1 {
		t.Errorf("%d attempts: %v", runs, err)
	}
	for _, end := range ends {
		end(nil)
	}
}

// However the function of an Update ends, and whatever conflict it makes up, nothing stays taken.
func TestUpdatesLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	h := newHistory(t, layertest.StartEmulator(t), "i")
	for name, end := range map[string]func(){
		"panic":  func() { panic("f") },
		"Goexit": runtime.Goexit,
	} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = recover() }()
			runs := 0
			_, _ = h.c.Update(h.ctx, func(context.Context, *Txn) error {
				if runs++; runs <= turnsAtOnce {
					return fmt.Errorf("wrapped: %w", conflictOn(fmt.Sprint(runs)))
				}
				end()
				return nil
			}, TxnOptions{})
			t.Errorf("%s: Update returned", name)
		}()
		<-done
		if s := h.c.Contention(); s.Attempts+s.Waiting != 0 || h.c.contention.held != 0 {
			t.Errorf("%s: %+v, %d turns", name, s, h.c.contention.held)
		}
	}
}
