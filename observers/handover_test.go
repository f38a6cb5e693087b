package observers

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// rows names the rows of offers, in order.
func rows(offers [][]offer) (names []string) {
	for _, c := range slices.Concat(offers...) {
		names = append(names, c.row)
	}
	return names
}

// notified is notifications of rows at a timestamp.
func notified(ts tso.Timestamp, rows ...string) (ns []model.Notification) {
	for _, row := range rows {
		ns = append(ns, model.Notification{Cell: model.Cell{Row: row}, Timestamp: ts})
	}
	return ns
}

// receive queues a cell that another worker has handed over.
func (f *fixture) receive(row string, ts tso.Timestamp, handOvers int) {
	f.q.receive(f.col, notified(ts, row), handOvers, 0)
}

// takeAll takes a batch, and ends all of its jobs but the last.
func (c *chain) takeAll(rows ...string) job {
	c.Helper()
	batch := c.takeBatch(rows...)
	last := len(batch) - 1
	c.finishAll(batch[:last], done)
	return batch[last]
}

// fill makes n cells ready, named from 0 on.
func (f *fixture) fill(n int) {
	f.Helper()
	for i := range n {
		f.offer(fmt.Sprint(i), tso.Timestamp(10+i), dispatched, accepted)
	}
}

// The oldest ready cells are offered, beyond those that stay; what nobody takes is as it was.
func TestOldestReadyCellsAreOffered(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{Concurrency: 1}, options{})
	f.fill(4)
	if cells := f.q.takeBacklog(8); len(cells) != 0 {
		t.Fatalf("%v are too many for one slot", rows(cells))
	}
	f.offer("4", 14, dispatched, accepted)
	f.offer("5", 15, dispatched, accepted)
	f.offer("6", 16, dispatched, accepted)
	cells := f.q.takeBacklog(2)
	if got := rows(cells); !slices.Equal(got, []string{"0", "1"}) {
		t.Fatalf("offered %v", got)
	}
	f.sizes(7, 0) // they are this worker's until somebody has taken them
	f.q.keep(cells)
	cells = f.q.takeBacklog(8)
	if got := rows(cells); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Fatalf("offered %v", got)
	}
	f.q.keep(cells[1:])
	if n := f.q.handedOver(cells[:1]); n != 1 {
		t.Fatalf("%d were handed over", n)
	}
	f.sizes(6, 0)
	for i := 1; i < 7; i++ {
		f.q.finish(f.take(fmt.Sprint(i), "o0"), outcome{state: runAcknowledged, through: 100, finished: 100})
	}
	f.none()
}

// Of the cells that are gathered, those that fit into no batch that begins soon are offered, by
// whole batches.
func TestBacklogOfBatches(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChain(t, Config{Concurrency: 2}, batchOf(2, time.Minute), after(time.Hour, "o0"))
		for i := range 4 {
			c.notify(0, fmt.Sprint(i), 10)
		}
		if cells := c.q.takeBacklog(8); len(cells) != 0 {
			t.Fatalf("%v are too many for two slots", rows(cells))
		}
		for i := range 5 {
			c.notify(0, fmt.Sprint(i+4), 10)
		}
		for i, want := range [][]string{1: {"0", "1"}, 3: {"0", "1"}, 4: {"0", "1", "2", "3"}, 9: {"0", "1", "2", "3"}} {
			if want != nil {
				offers := c.q.takeBacklog(i)
				if got := rows(offers); !slices.Equal(got, want) || len(offers) != len(want)/2 {
					t.Fatalf("offered %v by %d, want %v", got, len(offers), want)
				}
				c.q.keep(offers)
			}
		}
		offers := c.q.takeBacklog(1)
		c.sizes(9, 0)
		c.q.keep([][]offer{offers[0][1:]})
		if n := c.q.handedOver([][]offer{offers[0][:1]}); n != 1 {
			t.Fatalf("%d were handed over", n)
		}
		for _, batch := range [][]string{{"1", "2"}, {"3", "4"}, {"5", "6"}} {
			c.q.finish(c.takeAll(batch...), done)
		}
		c.notify(1, "x", 20)
		c.q.finish(c.takeAll("7", "8"), done)
		c.take("x", "o1") // what was handed over keeps nobody waiting
	})
}

// What this worker knows something of hides nothing behind it, nor does one kind of work hide
// another, whether or not anybody takes what is offered.
func TestBacklogOfEachKind(t *testing.T) {
	t.Parallel()
	t.Run("behind cells that stay", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, Config{Concurrency: 1}, batchOf(5, 0))
		for i := range 40 {
			f.receive(fmt.Sprint("received-", i), 10, maxHandOvers)
		}
		f.fill(1000)
		if offers := f.q.takeBacklog(32); len(offers) != 6 || len(slices.Concat(offers...)) != 30 {
			t.Errorf("offered %v", rows(offers))
		}
	})
	for _, sizes := range [][2]int{{1, 100}, {10, 100}, {100, 10}, {200, 200}, {1000, 300}} {
		t.Run(fmt.Sprint(sizes), func(t *testing.T) {
			t.Parallel()
			c := newChain(t, Config{Concurrency: 1}, batchOf(sizes[0], 0), batchOf(sizes[1], 0))
			for i, size := range sizes {
				for row := range 3*size + 5 {
					c.notify(i, fmt.Sprint(row), 10)
				}
			}
			first, seen := map[*column]bool{}, map[*column]bool{}
			for range 3 {
				offers := c.q.takeBacklog(32)
				first[offers[0][0].column] = true
				for _, cells := range offers {
					seen[cells[0].column] = true
					if most := min(sizes[slices.Index(c.columns, cells[0].column)], offerMost); len(cells) != most {
						t.Errorf("%d cells of a batch of %d", len(cells), most)
					}
				}
				c.q.keep(offers)
			}
			if len(seen) != 2 || len(first) != 2 {
				t.Errorf("offered of %d observers, of %d first", len(seen), len(first))
			}
		})
	}
}

// Cells that were handed to this worker itself run when they would have run.
func TestOwnBacklogComesFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{Concurrency: 1}, batchOf(3, 0))
	f.fill(9)
	offers := f.q.takeBacklog(32)
	f.q.takeBack(f.col, notified(100, rows(offers)...), 0)
	if n := f.q.handedOver(offers); n != 0 {
		t.Errorf("%d were handed over", n)
	}
	if j, _ := f.q.takeJob(); len(j.jobs) != 3 || j.jobs[0].entry.row != "0" || j.jobs[2].entry.row != "2" {
		t.Errorf("a batch of %d from row %s", len(j.jobs), j.entry.row)
	}
}

// A worker takes what it has asked for, also if its queue has filled meanwhile. A full queue asks
// for nothing.
func TestReceivedBeyondTheQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{Concurrency: 4, QueueLength: 3}, batchOf(10, 0))
	if !f.q.hasIdleSlots() {
		t.Error("an idle worker has no idle slots")
	}
	f.fill(3)
	if f.q.hasIdleSlots() {
		t.Error("a worker with a full queue has idle slots")
	}
	if n := f.q.receive(f.col, notified(10, "a", "b", "c"), 1, 0); n != 3 {
		t.Errorf("%d received", n)
	}
	f.sizes(6, 0)
}

// A worker whose slots conflict, or that has a full batch to begin, is not helped by more cells,
// nor are others.
func TestNoBacklogOfConflicts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, Config{Concurrency: 2}, batchOf(2, 0))
		for i := range 8 {
			if _, open := f.q.awaitIdleSlots(t.Context(), 1); !open {
				t.Fatal("the queue is closed")
			}
			if idle := f.q.hasIdleSlots(); idle != (i < 2) {
				t.Errorf("idle: %v, with %d cells", idle, i)
			}
			f.offer(fmt.Sprint(i), 10, dispatched, accepted)
		}
		f.col.runners[0].congestion.conflicted()
		if cells := f.q.takeBacklog(8); len(cells) != 0 {
			t.Errorf("offered %v", rows(cells))
		}
	})
}

// A cell that was handed over is the other worker's for a time, and then whoever finds it.
func TestHandedOverForATime(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := newFixture(t, Config{Concurrency: 1, Grace: time.Minute}, options{})
		f.fill(5)
		cells := f.q.takeBacklog(8)
		f.offer("0", 50, dispatched, joined) // notified again, before it was taken
		f.q.handedOver(cells)
		f.sizes(5, 0)
		for range 4 {
			j, _ := f.q.takeJob()
			f.q.finish(j, outcome{state: runAcknowledged, through: 100, finished: 100})
		}
		f.q.finish(f.take("0", "o0"), outcome{state: runAcknowledged, through: 100, finished: 100})

		for i := range 6 {
			f.offer(fmt.Sprint("more-", i), 200, dispatched, accepted)
		}
		f.q.handedOver(f.q.takeBacklog(8))
		time.Sleep(2*time.Minute - 1)
		f.offer("more-0", 200, found, elsewhere)
		f.offer("more-1", 201, found, accepted) // another change
		select {
		case <-f.q.room.missed:
			t.Fatal("looks for it too early")
		default:
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		select {
		case <-f.q.room.missed:
		default:
			t.Fatal("nobody looks for what was handed over")
		}
		f.offer("more-0", 200, found, accepted)
	})
}

// What this worker knows something of stays: another one would have to find it out.
func TestNotShared(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := newFixture(t, Config{Concurrency: 1}, options{}, options{})
		f.offer("failed", 10, dispatched, accepted)
		f.q.finish(f.take("failed", "o0"), outcome{state: runFailed, err: errTest})
		f.offer("half", 10, dispatched, accepted)
		f.q.finish(f.take("failed", "o1"), outcome{state: runAcknowledged, through: 20})
		f.q.finish(f.take("half", "o0"), outcome{state: runAcknowledged, through: 20})
		for range maxHandOvers {
			f.receive("received", 10, maxHandOvers)
		}
		time.Sleep(time.Minute)
		f.receive("once", 10, 1)
		f.fill(4)
		if got := rows(f.q.takeBacklog(8)); !slices.Equal(got, []string{"once"}) {
			t.Errorf("offered %v", got)
		}
	})
}

// A received cell has waited for its observers' Collapse before.
func TestReceivedIsDueAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{}, options{collapse: time.Hour})
	f.receive("r", 10, 1)
	j := f.take("r", "o0")
	if j.recheck {
		t.Error("nobody else has it")
	}
}

// A worker that is handed its own cell, since it asked before it had too many, has it once.
func TestHandedToItself(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		f := newFixture(t, Config{Concurrency: 1}, options{})
		f.fill(5)
		cells := f.q.takeBacklog(8)
		back := func() { f.q.takeBack(f.col, notified(10, "0"), 0) }
		if !late {
			back()
		}
		f.q.handedOver(cells)
		if late {
			back()
		}
		f.sizes(5, 0)
		if cells = f.q.takeBacklog(8); len(cells) != 1 || cells[0][0].handOvers != 0 {
			t.Errorf("offered %v", rows(cells))
		}
		f.q.keep(cells)
		f.sizes(5, 0)
	}
}

// A worker asks for others' work while it has little, unless all of its runs fail.
func TestWorkersAskForWorkWhileTheyHaveLittle(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := newFixture(t, Config{Concurrency: 2, MinBackoff: time.Hour}, options{})
		idle := func(want bool) {
			t.Helper()
			if got, open := f.q.awaitIdleSlots(t.Context(), time.Second); got != want || !open {
				t.Fatalf("idle: %v, open: %v", got, open)
			}
		}
		idle(true)
		f.fill(2)
		idle(false)
		f.q.finish(f.take("0", "o0"), outcome{state: runFailed, err: errTest})
		idle(true)
		f.q.finish(f.take("1", "o0"), outcome{state: runFailed, err: errTest})
		idle(false)
		f.offer("good", 10, dispatched, accepted)
		f.q.finish(f.take("good", "o0"), outcome{state: runAcknowledged, through: 20, finished: 20})
		idle(true)
	})
}
