package observers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{QueueLength: 2, Concurrency: 1}, options{})
	f.offer("a", 10, dispatched, accepted)
	f.offer("b", 11, dispatched, accepted)
	f.offer("c", 12, dispatched, full)
	f.offer("a", 13, dispatched, joined) // takes no room
	told := func() bool {
		select {
		case <-f.q.room.missed:
			return true
		default:
			return false
		}
	}
	if told() {
		t.Fatal("a scanner was told to look while there is no room")
	}
	f.q.finish(f.take("a", "o0"), outcome{state: runAcknowledged, through: 14, finished: 14})
	if !told() {
		t.Fatal("no scanner was told to look for what was dropped")
	}
	// The scan has slots of its own.
	for i := range 1024 {
		f.offer(fmt.Sprint("s", i), tso.Timestamp(20+i), found, accepted)
	}
	f.offer("s1024", 5000, found, full)
	if f.q.awaitRoom(cancelled()) {
		t.Fatal("there is no room")
	}
	for f.q.room.counts[found] > 512 {
		j, _ := f.q.takeJob()
		f.q.finish(j, outcome{state: runAcknowledged, through: 6000, finished: 6000})
	}
	if !f.q.awaitRoom(cancelled()) {
		t.Fatal("there is room")
	}
	f.offer("c", 12, found, accepted)
}

func TestQueueCountsCollapsingCellsApart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{QueueLength: 2}, options{collapse: time.Hour})
	for _, row := range []string{"a", "b"} {
		f.offer(row, 10, found, accepted)
	}
	f.offer("c", 10, found, crowded)
	if !f.q.awaitRoom(cancelled()) { // a scanner goes on with other columns
		t.Fatal("cells that wait to be joined keep the scan from going on")
	}
}

func TestQueueForgetsWhatFailsWhenTooMuchDoes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{QueueLength: 2, MinBackoff: time.Hour, MaxBackoff: time.Hour}, options{})
	for i := range 4 {
		f.offer(fmt.Sprint(i), 10, dispatched, map[bool]verdict{true: accepted, false: full}[i < 2])
		if i < 2 {
			continue
		}
		for range 2 {
			j, _ := f.q.takeJob()
			f.q.finish(j, outcome{state: runFailed, err: errTest})
		}
		break
	}
	f.sizes(2, 0)
	f.offer("x", 10, dispatched, accepted) // those that wait for another attempt do not keep it out
	f.q.finish(f.take("x", "o0"), outcome{state: runFailed, err: errTest})
	f.sizes(2, 0)
	f.offer("x", 10, found, accepted) // forgotten, so the scan brings it back
}

func TestQueueAwaitIdle(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := newFixture(t, Config{}, options{})
		f.offer("a", 10, dispatched, accepted)
		f.offer("b", 10, dispatched, accepted)
		if _, err := f.q.awaitEmpty(cancelled()); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		idle := make(chan uint64)
		go func() {
			started, err := f.q.awaitEmpty(t.Context())
			if err != nil {
				t.Error(err)
			}
			idle <- started
		}()
		f.q.finish(f.take("a", "o0"), outcome{state: runAcknowledged, through: 20})
		synctest.Wait()
		select {
		case <-idle:
			t.Fatal("b has not run")
		default:
		}
		f.q.finish(f.take("b", "o0"), outcome{state: runParked, err: errTest}) // does not count
		started := <-idle
		if !f.q.emptySince(started) {
			t.Fatal("nothing has started")
		}
		f.offer("a", 30, dispatched, accepted)
		f.q.finish(f.take("a", "o0"), outcome{state: runAcknowledged, through: 40})
		if f.q.emptySince(started) {
			t.Fatal("a has run")
		}
	})
}

func TestQueueCloses(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := newFixture(t, Config{MaxAttempts: 1}, options{concurrent: 1, collapse: 0}, options{collapse: time.Hour})
		for i, row := range []string{"parked", "running", "blocked"} {
			f.offer(row, tso.Timestamp(10+i), dispatched, accepted)
		}
		f.q.finish(f.take("parked", "o0"), outcome{state: runFailed, err: errTest}) // and delayed, for o1
		running := f.take("running", "o0")
		ended := make(chan bool)
		go func() {
			_, ok := f.q.takeJob() // meets "blocked" and does not get it
			ended <- ok
		}()
		synctest.Wait()
		f.none()
		f.offer("ready", 20, dispatched, accepted)
		f.q.close()
		if <-ended {
			t.Fatal("a closed queue gave work")
		}
		f.sizes(0, 1)
		f.offer("late", 20, dispatched, refused)
		f.q.finish(running, outcome{state: runAcknowledged, through: 30})
		f.sizes(0, 0)
		if _, err := f.q.awaitEmpty(cancelled()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestQueueLastOf(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{}, options{}, options{})
	f.offer("r", 10, dispatched, accepted)
	first := f.take("r", "o0")
	if _, ok := f.q.lastOf(first, 20); ok {
		t.Fatal("o1 has not run")
	}
	f.q.finish(first, outcome{state: runAcknowledged, through: 20})
	second := f.take("r", "o1")
	if upTo, ok := f.q.lastOf(second, 25); !ok || upTo != 20 {
		t.Fatalf("upTo %d, %v: the earlier start timestamp bounds what may be erased", upTo, ok)
	}
}

func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
