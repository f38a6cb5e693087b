package tso

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/tso/coordination"
	"github.com/gopercolator/percolator/tso/internal/record"
)

// keeper returns where the sessions of a server in a test are kept.
func (r *runner) keeper() serverSessions { return serverSessions{r.Server} }

// mustOpen opens a session that nobody renews.
func (r *runner) mustOpen(t *testing.T) string {
	t.Helper()
	g, err := r.keeper().open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return g.id
}

// mustRenew renews a session.
func (r *runner) mustRenew(t *testing.T, id string) {
	t.Helper()
	if _, err := r.keeper().keepAlive(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

// refusesToRenew expects an error of a kind.
func (r *runner) refusesToRenew(t *testing.T, id string, want error) {
	t.Helper()
	if _, err := r.keeper().keepAlive(t.Context(), id); !errors.Is(err, want) {
		t.Fatalf("renewing: %v, want %v", err, want)
	}
}

// hasEnded reports whether a server says that id has ended.
func (r *runner) hasEnded(t *testing.T, id string) bool {
	t.Helper()
	ended, err := r.EndedSessions(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(ended, id)
}

// startLeader starts a server and waits until it leads and knows the sessions.
func startLeader(t *testing.T, store Store, cfg ServerConfig) *runner {
	t.Helper()
	r := startServer(t, store, cfg)
	synctest.Wait()
	return r
}

func TestSessionExpires(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newFaultySessions(NewMemoryStore())
		a := startLeader(t, store, ServerConfig{})
		renewed, left := a.mustOpen(t), a.mustOpen(t)
		if ids := storedSessions(t, store.Store); len(ids) != 2 {
			t.Fatalf("stored are %q", ids)
		}
		time.Sleep(4 * time.Second)
		a.mustRenew(t, renewed)
		time.Sleep(900 * time.Millisecond)
		if a.hasEnded(t, left) || a.hasEnded(t, renewed) {
			t.Error("a session has ended before its lease")
		}
		time.Sleep(800 * time.Millisecond) // a lease, and the eighth of one between rounds
		if !a.hasEnded(t, left) || a.hasEnded(t, renewed) {
			t.Error("what was not renewed has not ended, or what was renewed has")
		}
		a.refusesToRenew(t, left, errSessionEnded)
		if ids := storedSessions(t, store.Store); !slices.Equal(ids, []string{renewed}) {
			t.Errorf("stored are %q, want %q", ids, renewed)
		}
		// A minute of renewals costs the store nothing.
		before := store.calls()
		for range 60 {
			a.mustRenew(t, renewed)
			time.Sleep(time.Second)
		}
		if after := store.calls(); after["add"] != before["add"] || after["remove"] != before["remove"] || after["sessions"] != 1 {
			t.Errorf("the store was called %v, before %v", after, before)
		}
	})
}

// Many sessions that end together are removed with few writes.
func TestSessionExpiryIsBatched(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newFaultySessions(NewMemoryStore())
		a := startLeader(t, store, ServerConfig{})
		const n = 3*removalBatch + 1
		for range n {
			a.mustOpen(t)
		}
		time.Sleep(6 * time.Second)
		if open, _ := a.liveness.counts(); open != 0 || len(storedSessions(t, store.Store)) != 0 {
			t.Errorf("%d sessions are open, %d stored", open, len(storedSessions(t, store.Store)))
		}
		if got := store.calls()["remove"]; got != 4 {
			t.Errorf("%d writes to remove %d sessions", got, n)
		}
	})
}

// A session that expires is removed before others are told.
func TestSessionIsRemovedBeforeItHasEnded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newFaultySessions(NewMemoryStore())
		a := startLeader(t, store, ServerConfig{})
		id := a.mustOpen(t)
		store.fail(answerLate, "remove")
		seen := 0
		for range 600 {
			time.Sleep(10 * time.Millisecond)
			if _, expired := a.liveness.current.Load().sessions.counts(); expired > 0 {
				seen++
				a.refusesToRenew(t, id, errSessionEnded)
				ended := a.hasEnded(t, id)
				if _, waits := a.liveness.current.Load().sessions.counts(); ended && waits > 0 {
					t.Fatal("ended before the store has answered")
				}
			}
		}
		if seen == 0 {
			t.Error("the store answered at once")
		}
		if !a.hasEnded(t, id) {
			t.Error("it has not ended")
		}
	})
}

// counts returns how many sessions are open, and how many wait to be removed.
func (t *sessionTenure) counts() (open, expired int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open), len(t.expired)
}

func TestSessionEndsWhenItIsClosed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newFaultySessions(NewMemoryStore())
		a := startLeader(t, store, ServerConfig{})
		s, err := a.OpenSession()
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		id := s.ID()
		if id == "" || a.hasEnded(t, id) {
			t.Fatalf("the session %q does not live", id)
		}
		time.Sleep(time.Minute)
		if s.ID() != id || a.hasEnded(t, id) {
			t.Fatal("it did not live for a minute")
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.ID() != "" || !a.hasEnded(t, id) {
			t.Error("it lives after it was closed")
		}
		synctest.Wait() // without time passing
		if ids := storedSessions(t, store.Store); len(ids) != 0 {
			t.Errorf("stored are %q", ids)
		}
		for range 2 {
			if err := errors.Join(s.Close(t.Context()), a.keeper().end(t.Context(), id)); err != nil {
				t.Errorf("closing it again: %v", err)
			}
		}
	})
}

func TestSessionLimits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := startLeader(t, NewMemoryStore(), ServerConfig{MaxSessions: 3})
		var ids []string
		for range 3 {
			ids = append(ids, a.mustOpen(t))
		}
		if _, err := a.keeper().open(t.Context()); !errors.Is(err, ErrLimit) {
			t.Errorf("one too many: %v", err)
		}
		if err := a.keeper().end(t.Context(), ids[0]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		a.mustOpen(t)

		for name, ids := range map[string][]string{
			"1,001 sessions": slices.Repeat([]string{"x"}, record.MaxSessionIDs+1),
			"no id":          {"x", ""},
		} {
			if _, err := a.EndedSessions(t.Context(), ids...); !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("asking for %s: %v", name, err)
			}
		}
		// What can be no session's id is no session's.
		odd := []string{strings.Repeat("x", record.MaxSessionIDBytes+1), "\xff"}
		if ended, err := a.EndedSessions(t.Context(), odd...); err != nil || !slices.Equal(ended, odd) {
			t.Errorf("asking for what is no id: %q, %v", ended, err)
		}
		if ended, err := a.EndedSessions(t.Context()); err != nil || len(ended) != 0 {
			t.Errorf("asking for nothing: %q, %v", ended, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := a.EndedSessions(ctx, "x"); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: %v", err)
		}
	})
}

// More sessions in the store than may be open, as after MaxSessions was lowered: those
// live on, and there are no new ones.
func TestSessionsAboveTheLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := NewMemoryStore()
		for _, id := range []string{"a", "b", "c"} {
			if err := store.(coordination.SessionStore).AddSession(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		a := startLeader(t, store, ServerConfig{MaxSessions: 1})
		a.mustRenew(t, "a")
		if _, err := a.keeper().open(t.Context()); !errors.Is(err, ErrLimit) {
			t.Errorf("one too many: %v", err)
		}
		time.Sleep(6 * time.Second)
		a.mustOpen(t)
	})
}

func TestSessionsNeedAStoreForThem(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := startLeader(t, newFaultyStore(NewMemoryStore()), ServerConfig{})
		a.mustTake(t, 1)
		if _, err := a.OpenSession(); !errors.Is(err, ErrUnsupported) {
			t.Errorf("opening a session: %v", err)
		}
		if _, err := a.EndedSessions(t.Context(), "x"); !errors.Is(err, ErrUnsupported) {
			t.Errorf("asking for one: %v", err)
		}
		if locked, err := a.LockRows(t.Context(), "h", time.Second, []uint64{1}); locked != 1 || err != nil {
			t.Errorf("locking a row: %d, %v", locked, err)
		}
	})
}

// A session of a server's own process follows the server.
func TestSessionOfAServerThatEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := NewMemoryStore()
		a := startServer(t, store, ServerConfig{})
		s, err := a.OpenSession() // before it leads
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if s.ID() == "" {
			t.Fatal("there is no session")
		}
		a.stop()
		if err := a.wait(t); err != nil {
			t.Fatal(err)
		}
		if s.ID() != "" {
			t.Error("the session lives without its server")
		}
		if _, err := a.OpenSession(); !errors.Is(err, ErrClosed) {
			t.Errorf("opening another: %v", err)
		}
		if _, err := a.EndedSessions(t.Context(), "x"); !errors.Is(err, ErrClosed) {
			t.Errorf("asking for one: %v", err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestSessionConfigBounds(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]ServerConfig{
		"session lease too short": {SessionLease: minSessionLease - 1},
		"session lease too long":  {SessionLease: maxSessionLease + 1},
		"no sessions":             {MaxSessions: -1},
		"too many sessions":       {MaxSessions: 100_000 + 1},
		"no row locks":            {MaxRowLocks: -1},
		"too many row locks":      {MaxRowLocks: 10_000_000 + 1},
	} {
		if _, err := NewServer(NewMemoryStore(), cfg); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
