package exportqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// apart is more than a slice.
const apart = 5 * time.Second

var errDown = errors.New("the receiver is down")

// parked lists the slices that are parked.
func (e *env) parked() (list []observers.Parked) {
	e.Helper()
	for p, err := range observers.ListParked(e.ctx, e.client) {
		if err != nil {
			e.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// notified lists the slices that carry notifications.
func (e *env) notified() (list []string) {
	e.Helper()
	for row, err := range admin.New(e.client).ScanPending(e.ctx, "exports", percolator.All()) {
		if err != nil {
			e.Fatal(err)
		}
		if len(row.Notified) > 0 {
			list = append(list, row.Row)
		}
	}
	return list
}

// backlog is what is stored of partition 0.
func (e *env) backlog() string {
	e.Helper()
	s, err := e.client.Snapshot(e.ctx)
	if err != nil {
		e.Fatal(err)
	}
	value, err := s.Get(e.ctx, percolator.Cell{Table: "exports", Row: "position.000", Column: "backlog"})
	if err != nil && !errors.Is(err, percolator.ErrNotFound) {
		e.Fatal(err)
	}
	return string(value)
}

// While a receiver is down one slice of a partition is parked, however many slices come. Once it is
// up, a retry of that one, or the next entry, delivers all of them in order, and nothing is parked.
func TestOneParkedSliceOfAPartition(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"a retry", "the next entry", "the next entry after a drop"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, func(c *exportqueue.Config) { c.Partitions, c.MaxEntries = 1, 2 })
			down := receiver{fail: func(n int) error {
				if n%2 == 0 {
					panic(errDown)
				}
				return errDown
			}}
			w, stop := e.export(e.client, &down, observers.Config{MaxAttempts: 2})
			var want []string
			for i := range 9 {
				e.add("k", fmt.Sprint(i))
				want = append(want, fmt.Sprint("k=", i))
				e.Clock.Advance(apart)
				e.idle(w)
			}
			stop()
			list := e.parked()
			if len(list) != 1 || len(e.notified()) != 1 || len(down.calls) != 2+8 {
				t.Fatalf("parked %v, notified %v, %d deliveries", list, e.notified(), len(down.calls))
			}
			var to receiver
			w, stop = e.export(e.client, &to, observers.Config{})
			defer stop()
			var err error
			switch by {
			case "a retry":
				err = observers.Retry(e.ctx, e.client, list[0])
			case "the next entry after a drop":
				err = observers.Drop(e.ctx, e.client, list[0])
				fallthrough
			default:
				want = append(want, "k=next")
				e.add("k", "next")
			}
			if err != nil {
				t.Fatal(err)
			}
			e.idle(w)
			if got := values(to.entries()); !slices.Equal(got, want) || len(e.parked())+len(e.notified()) != 0 || e.backlog() != "" {
				t.Errorf("delivered %v, want %v; parked %v, backlog %q", got, want, e.parked(), e.backlog())
			}
		})
	}
}

// A slice that was parked by itself is looked at again when its entries have been delivered with
// those of a later one.
func TestAParkedSliceEndsWithItsEntries(t *testing.T) {
	t.Parallel()
	e := newEnv(t, onePartition)
	down := receiver{fail: func(int) error { return errDown }}
	w, stop := e.export(e.client, &down, observers.Config{MaxAttempts: 2})
	e.add("k", "1")
	e.idle(w)
	stop()
	if len(e.parked()) != 1 {
		t.Fatalf("parked %v", e.parked())
	}
	var to receiver
	w, _ = e.export(e.client, &to, observers.Config{})
	e.Clock.Advance(apart)
	e.add("k", "2")
	e.idle(w)
	if got := values(to.entries()); !slices.Equal(got, []string{"k=1", "k=2"}) || len(e.parked())+len(e.notified()) != 0 {
		t.Errorf("delivered %v, parked %v", got, e.parked())
	}
}

// attempt begins a run for a slice and calls the delivery function; the caller commits it.
func (e *env) attempt(slice string, deliver func() error) (tx *percolator.Txn, notified percolator.Cell, err error) {
	e.Helper()
	tx = e.begin(e.client)
	notified, err = e.queue.Run(e.ctx, e.client, tx, 0, slice, func(context.Context, []exportqueue.Entry) error { return deliver() })
	return tx, notified, err
}

// A run delivers while another one fails, and leaves its slice to the backlog. Only one of them
// commits (I31), or the entries of the slice would wait for nobody.
func TestJoiningConflictsWithDelivering(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]int{"the first that joins": 0, "one more": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, onePartition)
			first := e.addAt("k", "first")
			join := func(value string) {
				e.Clock.Advance(apart)
				slice := e.addAt("k", value)
				tx, notified, err := e.attempt(slice, func() error { return errDown })
				if err != nil {
					t.Fatal(err)
				}
				e.commit(tx)
				e.erase(notified, tx.StartTimestamp())
			}
			for i := range before {
				join(fmt.Sprint(i))
			}
			delivering, _, err := e.attempt(first, func() error { join("joins"); return nil })
			if err != nil {
				t.Fatal(err)
			}
			if _, err := delivering.Commit(e.ctx); !errors.Is(err, percolator.ErrConflict) {
				t.Errorf("both commit: %v", err)
			}
			var to receiver
			e.run(e.client, first, &to)
			if got := values(to.entries()); len(got) != 2+before || got[len(got)-1] != "k=joins" || len(e.pending()) != 0 || !e.clean() {
				t.Errorf("delivered %v, left %v", got, e.pending())
			}
		})
	}
}

// A slice leaves its entries to the backlog between the snapshot of another worker's run and the
// search of that run, which must not deliver later entries without them (I31).
func TestARunDoesNotOvertakeWhatHasJoined(t *testing.T) {
	t.Parallel()
	e := newEnv(t, onePartition)
	e.add("k", "first")
	e.Clock.Advance(apart)
	joining := e.addAt("k", "joins")
	e.Clock.Advance(apart)
	last := e.addAt("k", "last")
	run := e.begin(e.client)
	tx, notified, err := e.attempt(joining, func() error { return errDown })
	if err != nil {
		t.Fatal(err)
	}
	e.commit(tx)
	e.erase(notified, tx.StartTimestamp())
	var to receiver
	if _, err := e.queue.Run(e.ctx, e.client, run, 0, last, to.deliver); !errors.Is(err, percolator.ErrConflict) {
		t.Errorf("delivered %v: %v", values(to.entries()), err)
	}
	e.run(e.client, last, &to)
	if got := values(to.entries()); !slices.Equal(got, []string{"k=first", "k=joins", "k=last"}) {
		t.Errorf("delivered %v", got)
	}
}

// While the receiver is down the worker dies at each of its requests in turn, or the request or its
// answer is lost, or it arrives twice: another worker delivers everything, in order.
func TestFaultsWhileTheReceiverIsDown(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for _, effect := range []percolatortest.Effect{percolatortest.Crash, percolatortest.LoseRequest, percolatortest.LoseAnswer, percolatortest.Duplicate} {
		t.Run(fmt.Sprint(effect), func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) { faultsWhileTheReceiverIsDown(t, effect) })
		})
	}
}

func faultsWhileTheReceiverIsDown(t *testing.T, effect percolatortest.Effect) {
	e := newEnv(t, func(c *exportqueue.Config) { c.Partitions, c.MaxEntries = 1, 2 })
	var to receiver
	var want []string
	for n := 0; ; n++ {
		if !fixture.Sampled(fmt.Sprint(t.Name(), n)) {
			continue
		}
		c, hit := e.faultAt(n, effect)
		down := receiver{fail: func(int) error { return errDown }}
		_, stop := e.export(c, &down, observers.Config{MaxAttempts: 2})
		for range 3 {
			want = append(want, fmt.Sprint("k=", len(want)))
			e.add("k", fmt.Sprint(len(want)-1))
			e.Clock.Advance(apart)
		}
		e.until("the worker dies, or is done", func() bool {
			return e.FaultsOf(c).Crashed() || len(e.parked()) == 1 && len(e.notified()) == 1
		})
		stop()
		e.Clock.Advance(time.Minute) // its locks are dead
		w, stop := e.export(e.NewClient(), &to, observers.Config{})
		want = append(want, fmt.Sprint("k=", len(want)))
		e.add("k", fmt.Sprint(len(want)-1))
		e.idle(w)
		stop()
		if got := values(to.entries()); !slices.Equal(got, want) || len(e.pending()) != 0 || len(e.parked()) != 0 || e.backlog() != "" {
			t.Fatalf("%v at request %d: delivered %v, want %v; left %v, parked %v", effect, n, got, want, e.pending(), e.parked())
		}
		if !hit() {
			if n < 6 {
				t.Errorf("the worker sent %d requests", n)
			}
			return
		}
	}
}

// Entries are added in order and late; runs of any notified slice, two of which may be in flight at
// once, fail and succeed at random. In the end everything was delivered, an entry for the first
// time no later than one whose transaction began after its own had committed, and in between
// whatever waits is led to (I31).
func TestBacklogAtRandom(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for _, seed := range fixture.Chosen(8, 40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			randomBacklog(t, rand.New(rand.NewPCG(uint64(seed), 31)))
		})
	}
}

// exported is an entry of the test, by its value.
type exported struct{ began, committed tso.Timestamp }

// running is a run that has delivered, or failed to, and has yet to commit.
type running struct {
	tx        *percolator.Txn
	notified  percolator.Cell
	delivered []string
}

func randomBacklog(t *testing.T, r *rand.Rand) {
	e := newEnv(t, func(c *exportqueue.Config) { c.Partitions, c.MaxEntries = 1, 1+r.IntN(3) })
	all, first := map[string]exported{}, []string(nil)
	var late []*percolator.Txn
	var under []running
	var early *percolator.Txn // that of the next run, which has yet to search
	add := func(tx *percolator.Txn) {
		ts, err := tx.Commit(e.ctx)
		if err != nil {
			t.Fatal(err)
		}
		all[fmt.Sprint(tx.StartTimestamp())] = exported{tx.StartTimestamp(), ts}
	}
	begin := func() *percolator.Txn {
		tx := e.begin(e.client)
		e.queueIn(tx, "k", fmt.Sprint(tx.StartTimestamp()))
		return tx
	}
	start := func(fails bool) {
		dirty := e.notified()
		if len(dirty) == 0 {
			return
		}
		run := running{tx: early}
		if early = nil; run.tx == nil {
			run.tx = e.begin(e.client)
		}
		var err error
		run.notified, err = e.queue.Run(e.ctx, e.client, run.tx, 0, dirty[r.IntN(len(dirty))], func(_ context.Context, batch []exportqueue.Entry) error {
			if fails {
				return errDown
			}
			for _, x := range batch {
				run.delivered = append(run.delivered, string(x.Value))
			}
			return nil
		})
		for _, v := range run.delivered {
			if !slices.Contains(first, v) {
				first = append(first, v)
			}
		}
		if err == nil {
			under = append(under, run)
		} else if !errors.Is(err, errDown) && !errors.Is(err, percolator.ErrConflict) {
			t.Fatal(err)
		}
	}
	end := func(i int) {
		run := under[i]
		under = slices.Delete(under, i, i+1)
		if _, err := run.tx.Commit(e.ctx); err == nil {
			e.erase(run.notified, run.tx.StartTimestamp())
		} else if !errors.Is(err, percolator.ErrConflict) {
			t.Fatal(err)
		}
	}
	for range 60 {
		switch n := r.IntN(10); {
		case n < 3:
			e.Clock.Advance(time.Duration(r.IntN(8)) * time.Second)
			add(begin())
		case n == 3:
			late = append(late, begin())
		case n == 4 && len(late) > 0:
			add(late[0])
			late = late[1:]
		case n == 5 && early == nil:
			early = e.begin(e.client)
		case n < 8 && len(under) < 2:
			start(r.IntN(4) > 0)
		case len(under) > 0:
			end(r.IntN(len(under)))
		}
	}
	for _, tx := range late {
		add(tx)
	}
	for len(under) > 0 {
		end(0)
	}
	for range 10 * len(all) {
		if start(false); len(under) > 0 {
			end(0)
		}
	}
	if left := e.pending(); len(left) > 0 || len(first) != len(all) || !e.clean() || e.backlog() != "" {
		t.Fatalf("left %v, delivered %d of %d, notified %v, backlog %q", left, len(first), len(all), e.notified(), e.backlog())
	}
	for i, v := range first {
		for _, later := range first[i+1:] {
			if all[later].committed < all[v].began {
				t.Errorf("%s was delivered before %s, which had committed before it began", v, later)
			}
		}
	}
}
