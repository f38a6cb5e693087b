package tso

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/tso/coordination"
)

func TestSessionSurvivesFailover(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		memory := NewMemoryStore()
		frozen := newFaultySessions(memory)
		a := startLeader(t, frozen, ServerConfig{Advertise: "a:1"})
		b := startLeader(t, memory, ServerConfig{Advertise: "b:1"})
		id, left := a.mustOpen(t), a.mustOpen(t)
		b.refusesToRenew(t, id, ErrNotLeader)

		time.Sleep(4 * time.Second)
		a.mustRenew(t, id)
		frozen.freeze()
		for b.elector.leaderAddress() != "b:1" {
			time.Sleep(10 * time.Millisecond)
			a.keeper().keepAlive(t.Context(), id) // whatever the answer
		}
		synctest.Wait()
		b.mustRenew(t, id)

		// Whoever led before refuses, by its own clock and then by what it has read.
		a.refusesToRenew(t, id, ErrUnavailable)
		if _, err := a.EndedSessions(t.Context(), id); !errors.Is(err, ErrUnavailable) {
			t.Errorf("the former leader answers %v", err)
		}
		if _, err := a.keeper().open(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("the former leader opens a session: %v", err)
		}
		if _, err := a.LockRows(t.Context(), "h", time.Second, []uint64{1}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("the former leader locks rows: %v", err)
		}
		frozen.heal()
		time.Sleep(2 * time.Second)
		var follower *NotLeaderError
		if _, err := a.EndedSessions(t.Context(), id); !errors.As(err, &follower) || follower.Leader != "b:1" {
			t.Errorf("the former leader answers %v", err)
		}

		// A whole lease from the successor, and then it is over.
		if b.hasEnded(t, left) {
			t.Error("the successor gave no lease")
		}
		for range 20 {
			time.Sleep(time.Second)
			b.mustRenew(t, id)
		}
		if !b.hasEnded(t, left) || b.hasEnded(t, id) {
			t.Error("what was not renewed has not ended, or what was renewed has")
		}
	})
}

// A leader that was stopped and continues finds everybody's lease run out, since
// nobody could reach it. Nobody's session ends.
func TestSessionLeaderIsStoppedAndContinued(t *testing.T) {
	for name, cfg := range map[string]ServerConfig{
		"its lease has run out too": {},
		"its lease is long":         {Lease: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				a := startLeader(t, NewMemoryStore(), cfg)
				id := a.mustOpen(t)
				time.Sleep(time.Second)
				a.clock.mono.Add(int64(time.Minute))
				if cfg.Lease == 0 {
					a.refusesToRenew(t, id, ErrUnavailable)
				}
				time.Sleep(3 * time.Second)
				a.mustRenew(t, id)
				time.Sleep(6 * time.Second)
				if !a.hasEnded(t, id) {
					t.Error("it never ends")
				}
			})
		})
	}
}

// A process that is stopped while it opens a session does not answer with one: the
// successor may have read the store before.
func TestSessionLeaderIsStoppedWhileItOpensOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newFaultySessions(NewMemoryStore())
		a := startLeader(t, store, ServerConfig{})
		store.fail(answerLate, "add")
		opened := make(chan error, 1)
		go func() {
			_, err := a.keeper().open(t.Context())
			opened <- err
		}()
		synctest.Wait()
		a.clock.mono.Add(int64(time.Minute))
		store.freeze()
		if err := <-opened; !errors.Is(err, ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		store.heal()
	})
}

// While the store does not answer, the sessions that are open go on as long as the
// server leads, and longer when it leads again.
func TestSessionStoreDoesNotAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newFaultySessions(NewMemoryStore())
		a := startLeader(t, store, ServerConfig{})
		id := a.mustOpen(t)
		for _, f := range []fault{refused, hangs} {
			store.fail(f, "add", "remove", "sessions")
			for range 10 {
				started := time.Now()
				if _, err := a.keeper().open(t.Context()); !errors.Is(err, ErrUnavailable) {
					t.Fatalf("opening one: %v", err)
				} else if f == refused && !strings.Contains(err.Error(), errStore.Error()) {
					t.Fatalf("the error does not say why: %v", err)
				}
				if took := time.Since(started); took > sessionWriteTimeout {
					t.Errorf("refused after %v", took)
				}
				a.mustRenew(t, id)
				time.Sleep(time.Second)
			}
		}
		store.freeze() // the lease too
		time.Sleep(20 * time.Second)
		a.refusesToRenew(t, id, ErrUnavailable)
		store.heal()
		time.Sleep(4 * time.Second)
		a.mustRenew(t, id)
		if ids := storedSessions(t, store.Store); !slices.Equal(ids, []string{id}) {
			t.Errorf("stored are %q, want %q", ids, id)
		}
	})
}

// An id that may have been stored without an answer is used for the next session:
// nothing is left behind.
func TestSessionWithoutAnAnswerOfTheStore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newFaultySessions(NewMemoryStore())
		a := startLeader(t, store, ServerConfig{})
		store.fail(answerLost, "add")
		for range 3 {
			if _, err := a.keeper().open(t.Context()); !errors.Is(err, ErrUnavailable) {
				t.Fatalf("opening one: %v", err)
			}
		}
		store.heal()
		id := a.mustOpen(t)
		if ids := storedSessions(t, store.Store); !slices.Equal(ids, []string{id}) {
			t.Errorf("stored are %q, want %q", ids, id)
		}
	})
}

// Sessions end although the store does not remove them, which it does later.
func TestSessionCannotBeRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var log strings.Builder
		store := newFaultySessions(NewMemoryStore())
		a := startLeader(t, store, ServerConfig{SessionLease: time.Second, MaxSessions: 2, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		expires, closed := a.mustOpen(t), a.mustOpen(t)
		store.fail(refused, "remove")
		if err := a.keeper().end(t.Context(), closed); err != nil {
			t.Fatal(err)
		}
		if !a.hasEnded(t, closed) {
			t.Error("what was closed lives")
		}
		if _, err := a.keeper().open(t.Context()); !errors.Is(err, ErrLimit) {
			t.Errorf("more are stored than may be open: %v", err)
		}
		time.Sleep(6 * time.Second)
		if !a.hasEnded(t, expires) || !a.hasEnded(t, closed) {
			t.Error("a session lives")
		}
		if n := len(storedSessions(t, store.Store)); n != 2 {
			t.Errorf("%d are stored, want 2", n)
		}
		time.Sleep(time.Minute)
		if n := store.calls()["remove"]; n > 140 {
			t.Errorf("the store was asked %d times in 66 s", n)
		}
		store.heal()
		time.Sleep(2 * time.Second)
		if ids := storedSessions(t, store.Store); len(ids) != 0 {
			t.Errorf("stored are %q", ids)
		}
		a.stop()
		if err := a.wait(t); err != nil {
			t.Fatal(err)
		}
		for _, message := range []string{"cannot be removed from the store", "removed from the store again"} {
			if n := strings.Count(log.String(), message); n != 1 {
				t.Errorf("%q is logged %d times", message, n)
			}
		}
		if strings.Contains(log.String(), expires) {
			t.Error("the log contains a session's id")
		}
	})
}

// Timestamps are served while sessions cannot be loaded.
func TestSessionsAreLoadedBeforeTheyAreAnsweredFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		memory := NewMemoryStore()
		if err := memory.(coordination.SessionStore).AddSession(t.Context(), "old"); err != nil {
			t.Fatal(err)
		}
		store := newFaultySessions(memory)
		store.fail(refused, "sessions")
		a := startLeader(t, store, ServerConfig{})
		a.mustTake(t, 1)
		a.refusesToRenew(t, "old", ErrUnavailable)
		if _, err := a.keeper().open(t.Context()); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), errStore.Error()) {
			t.Errorf("opening one: %v", err)
		}
		if _, err := a.EndedSessions(t.Context(), "old"); !errors.Is(err, ErrUnavailable) {
			t.Errorf("asking for one: %v", err)
		}
		if locked, err := a.LockRows(t.Context(), "h", time.Second, []uint64{1}); locked != 1 || err != nil {
			t.Errorf("locking a row: %d, %v", locked, err)
		}
		time.Sleep(10 * time.Second)
		store.heal()
		time.Sleep(2 * time.Second)
		a.mustRenew(t, "old") // it had its whole lease from then
	})
}
