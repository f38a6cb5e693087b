package tso

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/tso/coordination"
)

func mustLeave(t *testing.T, h coordination.Hints, hints []coordination.Hint, refused ...uint64) {
	t.Helper()
	got, err := h.LeaveHints(t.Context(), hints)
	if err != nil || !slices.Equal(got, refused) {
		t.Fatalf("leaving %v: refused %v, %v; want %v", hints, got, err, refused)
	}
}

func mustTakeHints(t *testing.T, h coordination.Hints, topics []uint64, most int, wait time.Duration, want ...coordination.Hint) {
	t.Helper()
	got, err := h.TakeHints(t.Context(), topics, most, wait)
	if err != nil || len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Fatalf("took %v, %v; want %v", got, err, want)
	}
}

// held is what a leader has in memory.
func held(r *runner) (hints, bytes, topics int) {
	t := r.liveness.current.Load().hints
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count.Used(), t.bytes.Used(), len(t.topics)
}

func TestHintsComeOnceToThoseWhoAsked(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := startLeader(t, NewMemoryStore(), ServerConfig{})
		x, y, z := coordination.Hint{Topic: 1, Data: "x"}, coordination.Hint{Topic: 2, Data: "y"}, coordination.Hint{Topic: 1, Data: "z"}
		mustLeave(t, a, []coordination.Hint{x, y, z}, 1, 2) // nobody has asked

		started := time.Now()
		mustTakeHints(t, a, []uint64{1, 2}, 8, 3*time.Second)
		if d := time.Since(started); d != 3*time.Second {
			t.Errorf("waited %v", d)
		}
		mustLeave(t, a, []coordination.Hint{x, y, z})
		mustTakeHints(t, a, []uint64{1, 2}, 2, time.Hour/120, x, z) // what there is, at once, by topics
		mustTakeHints(t, a, []uint64{1, 2}, 2, 0, y)
		mustTakeHints(t, a, []uint64{1, 2}, 2, 0) // each once

		// One who waits gets it, and only of the topics that it asked for.
		go func() {
			time.Sleep(time.Second)
			_, _ = a.LeaveHints(t.Context(), []coordination.Hint{y, x})
		}()
		mustTakeHints(t, a, []uint64{1}, 8, 5*time.Second, x)
		mustTakeHints(t, a, []uint64{2}, 8, 0, y)

		// What nobody takes is forgotten, and then refused.
		mustLeave(t, a, []coordination.Hint{x, y})
		time.Sleep(3 * hintInterest)
		if hints, bytes, topics := held(a); hints+bytes+topics != 0 {
			t.Errorf("%d hints of %d bytes in %d topics are left", hints, bytes, topics)
		}
		mustLeave(t, a, []coordination.Hint{x}, 1)
	})
}

func TestHintLimits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := startLeader(t, NewMemoryStore(), ServerConfig{MaxHints: 3})
		mustTakeHints(t, a, []uint64{1, 2}, 8, 0)
		mustLeave(t, a, []coordination.Hint{{Topic: 1, Data: "a"}, {Topic: 2, Data: "b"}, {Topic: 2, Data: "c"}, {Topic: 2, Data: "d"}, {Topic: 2, Data: "e"}, {Topic: 1, Data: "f"}}, 2, 1)
		mustTakeHints(t, a, []uint64{2}, 8, 0, coordination.Hint{Topic: 2, Data: "b"}, coordination.Hint{Topic: 2, Data: "c"})
		mustLeave(t, a, []coordination.Hint{{Topic: 2, Data: "g"}})

		large := strings.Repeat("d", maxHintData)
		for name, hints := range map[string][]coordination.Hint{
			"too many":       make([]coordination.Hint, maxHintsAtOnce+1),
			"too large":      {{Topic: 1, Data: large + "d"}},
			"large together": slices.Repeat([]coordination.Hint{{Topic: 1, Data: large}}, maxHintsData/maxHintData+1),
		} {
			if _, err := a.LeaveHints(t.Context(), hints); !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("leaving hints %s: %v", name, err)
			}
		}
		for _, c := range []struct {
			topics, most int
			wait         time.Duration
		}{{maxHintTopics + 1, 1, 0}, {1, 0, 0}, {1, maxHintsAtOnce + 1, 0}, {1, 1, -1}, {1, 1, maxHintWait + 1}} {
			if _, err := a.TakeHints(t.Context(), make([]uint64, c.topics), c.most, c.wait); !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("taking %+v: %v", c, err)
			}
		}

		// Topics do not pile up without end.
		topics := make([]uint64, maxHintTopics)
		var err error
		for n := 0; n <= maxTopics && err == nil; n += len(topics) {
			for i := range topics {
				topics[i] = uint64(1000 + n + i)
			}
			_, err = a.TakeHints(t.Context(), topics, 1, 0)
		}
		if _, _, topics := held(a); !errors.Is(err, ErrLimit) || topics != maxTopics {
			t.Errorf("%d topics, %v", topics, err)
		}
	})
}

// An answer is never larger than what may be left at once.
func TestHintsAnswerIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := startLeader(t, NewMemoryStore(), ServerConfig{})
		mustTakeHints(t, a, []uint64{1}, 1, 0)
		hint := coordination.Hint{Topic: 1, Data: strings.Repeat("d", maxHintData)}
		for range 2 {
			mustLeave(t, a, slices.Repeat([]coordination.Hint{hint}, 6))
		}
		for range 2 {
			mustTakeHints(t, a, []uint64{1}, 100, 0, slices.Repeat([]coordination.Hint{hint}, 6)...)
		}
	})
}

// Nobody waits while there are hints, whichever takers come and go, and every hint has one taker.
func TestHintsReachOneTakerEach(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := startLeader(t, NewMemoryStore(), ServerConfig{})
		const takers, hints = 8, 500
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		seen := map[string]int{}
		for i := range takers {
			go func() {
				for ctx.Err() == nil {
					// Some give up early, at the same moments at which hints come.
					mine, done := context.WithTimeout(ctx, time.Duration(1+i)*time.Millisecond)
					got, err := a.TakeHints(mine, []uint64{1, 2}, 1+i%3, 20*time.Second)
					done()
					if err != nil && mine.Err() == nil {
						t.Error(err)
					}
					mu.Lock()
					for _, h := range got {
						seen[h.Data]++
					}
					mu.Unlock()
				}
			}()
		}
		synctest.Wait()
		for i := range hints {
			mustLeave(t, a, []coordination.Hint{{Topic: uint64(1 + i%2), Data: fmt.Sprint(i)}})
			if i%3 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(time.Second)
		cancel()
		synctest.Wait()
		if len(seen) != hints {
			t.Errorf("%d of %d hints were taken", len(seen), hints)
		}
		for h, n := range seen {
			if n != 1 {
				t.Errorf("hint %s was taken %d times", h, n)
			}
		}
		if hints, bytes, _ := held(a); hints+bytes != 0 {
			t.Errorf("%d hints of %d bytes are left", hints, bytes)
		}
		time.Sleep(3 * hintInterest)
		if _, _, topics := held(a); topics != 0 { // a taker that was left behind would keep its topic
			t.Errorf("%d topics are left", topics)
		}
	})
}

// Who waits is let go when the server leads no more.
func TestHintsEndWithTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := NewMemoryStore()
		a := startLeader(t, store, ServerConfig{})
		b := startLeader(t, store, ServerConfig{})
		if _, err := b.LeaveHints(t.Context(), nil); !errors.Is(err, ErrNotLeader) {
			t.Errorf("a follower answers %v", err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := a.TakeHints(t.Context(), []uint64{1}, 1, maxHintWait)
			ended <- err
		}()
		synctest.Wait()
		started := time.Now()
		a.stop()
		if err := <-ended; err == nil || time.Since(started) > 2*time.Second {
			t.Errorf("after %v: %v", time.Since(started), err)
		}
		if err := a.wait(t); err != nil {
			t.Fatal(err)
		}
	})
}

// Over gRPC: a question outlives the timeout of other calls, and a server that stops does not wait
// for it.
func TestHintsOverGRPC(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes longer than a second")
	}
	t.Parallel()
	server := startServing(t, NewMemoryStore(), ServerConfig{})
	worker, writer := dial(t, server.address, WithTimeout(time.Second)), dial(t, server.address)
	mustNext(t, worker)
	mustNext(t, writer)
	mustTakeHints(t, worker, []uint64{7}, 4, 0)
	type answer struct {
		hints []coordination.Hint
		err   error
	}
	taken := make(chan answer, 1)
	take := func() {
		hints, err := worker.TakeHints(t.Context(), []uint64{7}, 4, maxHintWait)
		taken <- answer{hints, err}
	}
	go take()
	long := coordination.Hint{Topic: 7, Data: strings.Repeat("\x00\xff", maxHintData/2)}
	mustLeave(t, writer, []coordination.Hint{{Topic: 8, Data: "nobody's"}, long}, 8)
	if a := <-taken; a.err != nil || !slices.Equal(a.hints, []coordination.Hint{long}) {
		t.Fatalf("took %d hints, %v", len(a.hints), a.err)
	}
	// As large as they may be.
	mustLeave(t, writer, append(slices.Repeat([]coordination.Hint{long}, 5), slices.Repeat([]coordination.Hint{{Topic: 7, Data: "x"}}, maxHintsAtOnce-5)...))
	if _, err := writer.LeaveHints(t.Context(), make([]coordination.Hint, maxHintsAtOnce+1)); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	for left := maxHintsAtOnce; left > 0; {
		hints, err := worker.TakeHints(t.Context(), []uint64{7}, maxHintsAtOnce, maxHintWait)
		if err != nil {
			t.Fatal(err)
		}
		left -= len(hints)
	}

	go take()
	waits := func() bool {
		table := server.liveness.current.Load().hints
		table.mu.Lock()
		defer table.mu.Unlock()
		return table.topics[7].takers.Len() > 0
	}
	for !waits() {
		time.Sleep(time.Millisecond)
	}
	server.stop()
	if err := <-server.ended; err != nil {
		t.Error(err)
	}
	if a := <-taken; a.err == nil {
		t.Errorf("took %v of a server that has stopped", a.hints)
	}
}
