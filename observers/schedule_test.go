package observers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/tso"
)

// TestReadyOrder: items are taken in the order of when they became ready less their head starts,
// and of their arrival.
func TestReadyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		type waiting struct {
			start  time.Time
			runner *runner
		}
		var r ready
		var want []waiting
		now := time.Now()
		rt.Repeat(map[string]func(*rapid.T){
			"push": func(rt *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 2).Draw(rt, "later")))
				headStart := time.Duration(rapid.IntRange(0, 3).Draw(rt, "head start"))
				w := waiting{now.Add(-headStart), &runner{}}
				r.push(item{batch: w.runner}, headStart, now)
				at, _ := slices.BinarySearchFunc(want, w, func(x, y waiting) int {
					if x.start.After(y.start) {
						return 1
					}
					return -1
				})
				want = slices.Insert(want, at, w)
			},
			"pop": func(rt *rapid.T) {
				if len(want) == 0 {
					rt.Skip()
				}
				if it := r.pop(); it.batch != want[0].runner {
					rt.Fatalf("popped the wrong one")
				}
				want = want[1:]
			},
			"": func(rt *rapid.T) {
				if r.len() != len(want) {
					rt.Fatalf("%d items, want %d", r.len(), len(want))
				}
			},
		})
	})
}

func TestHeadStart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChain(t, Config{}, options{}, with(options{}, HeadStart(time.Second)), with(batchOf(10, 0), HeadStart(time.Minute)))
		c.notify(0, "early", 10)
		c.pass(time.Millisecond)
		c.notify(0, "late", 11)
		c.pass(time.Second - time.Millisecond + time.Nanosecond)
		c.notify(1, "urgent", 12)
		c.notify(2, "batch", 13)
		c.takeBatch("batch")
		c.take("early", "o0") // it has waited for long enough
		c.take("urgent", "o1")
		c.take("late", "o0")
	})
}

// An observer with a head start goes first for a cell that others are due for as well, but a cell
// that changes all the time does not keep the others from it.
func TestHeadStartForOneCell(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, Config{}, options{}, with(options{}, HeadStart(time.Second)))
		ts := tso.Timestamp(10)
		f.offer("r", ts, dispatched, accepted)
		for runs := 0; ; runs++ {
			j := f.takeAny()
			if runs == 0 && j.runner.name != "o1" {
				t.Errorf("%s goes first", j.runner.name)
			}
			if j.runner.name == "o0" {
				if runs != 10 {
					t.Errorf("after %d runs of the other", runs)
				}
				return
			}
			start := ts + 1
			ts += 2
			f.pass(100*time.Millisecond + time.Nanosecond)
			f.offer("r", ts, dispatched, joined)
			f.q.finish(j, outcome{state: runAcknowledged, through: start})
		}
	})
}

// A cell keeps its head start when it waits for a slot.
func TestHeadStartOfABlockedCell(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChain(t, Config{}, options{}, with(options{}, HeadStart(time.Second), MaxConcurrent(1)))
		c.notify(1, "a", 10)
		c.notify(1, "b", 11)
		a := c.take("a", "o1")
		if _, ok := c.q.tryTake(); ok {
			t.Fatal("two at once")
		}
		c.notify(0, "x", 12)
		c.q.finish(a, done)
		c.take("b", "o1")
		c.take("x", "o0")
	})
}

// BenchmarkQueue offers cells, takes them and ends their runs, with many of them ready at once.
//
//	go test -run '^$' -bench BenchmarkQueue ./observers
func BenchmarkQueue(b *testing.B) {
	for name, depth := range map[string]int{"empty": 1, "deep": 10_000} {
		b.Run(name, func(b *testing.B) {
			cfg, err := Config{}.withDefaults()
			if err != nil {
				b.Fatal(err)
			}
			col := &column{Column: Column{"t", "c"}, cells: map[string]*entry{}, runners: []*runner{{observer: &observer{}}}}
			q := newQueue(cfg, col.runners)
			q.open()
			defer q.close()
			rows := make([]string, 2*depth)
			for i := range rows {
				rows[i] = fmt.Sprint(i)
			}
			for i := range depth {
				q.offer(col, rows[i], 1, dispatched, nil)
			}
			ts := tso.Timestamp(2)
			for i := depth; b.Loop(); i++ {
				q.offer(col, rows[i%len(rows)], ts, dispatched, nil)
				j, _ := q.takeJob()
				q.finish(j, outcome{state: runCommitted, through: ts})
				ts++
			}
		})
	}
}

func TestFifoKeepsTheOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var f fifo[int]
		in, out := 0, 0
		for range rapid.IntRange(0, 50).Draw(t, "rounds") {
			for range rapid.IntRange(0, 3000).Draw(t, "push") {
				f.push(in)
				in++
			}
			for range min(f.len(), rapid.IntRange(0, 3000).Draw(t, "pop")) {
				if v := f.pop(); v != out {
					t.Fatalf("popped %d, want %d", v, out)
				}
				out++
			}
			if f.len() != in-out {
				t.Fatalf("length %d, want %d", f.len(), in-out)
			}
		}
	})
}

func TestFIFOUnpop(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var f fifo[int]
		var model []int
		next := 0
		rt.Repeat(map[string]func(*rapid.T){
			"push": func(rt *rapid.T) {
				for range rapid.IntRange(1, 1500).Draw(rt, "n") {
					f.push(next)
					model = append(model, next)
					next++
				}
			},
			"pop": func(rt *rapid.T) {
				for range rapid.IntRange(0, len(model)).Draw(rt, "n") {
					if v := f.pop(); v != model[0] {
						rt.Fatalf("popped %d, want %d", v, model[0])
					}
					model = model[1:]
				}
			},
			"unpop": func(rt *rapid.T) {
				var items []int
				for range rapid.IntRange(0, len(model)).Draw(rt, "n") {
					items = append(items, f.pop())
				}
				f.unpop(items)
			},
			"": func(rt *rapid.T) {
				if f.len() != len(model) {
					rt.Fatalf("%d items, want %d", f.len(), len(model))
				}
			},
		})
	})
}
