package tso

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso/coordination"
	"github.com/gopercolator/percolator/tso/internal/record"
)

// sessionConformance runs what every SessionStore has to fulfil. open returns a new
// handle, of a server of its own, on what the oracle called name has stored.
func sessionConformance(t *testing.T, open func(t *testing.T, name string) Store) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	add := func(t *testing.T, s Store, ids ...string) {
		t.Helper()
		for _, id := range ids {
			if err := s.(coordination.SessionStore).AddSession(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(t *testing.T, s Store, ids ...string) {
		t.Helper()
		if err := s.(coordination.SessionStore).RemoveSessions(ctx, ids...); err != nil {
			t.Fatal(err)
		}
	}
	want := func(t *testing.T, s Store, ids ...string) {
		t.Helper()
		slices.Sort(ids)
		if got := storedSessions(t, s); !slices.Equal(got, ids) {
			t.Errorf("stored are %q, want %q", got, ids)
		}
	}

	t.Run("adds and removes", func(t *testing.T) {
		a, b := open(t, "sessions"), open(t, "sessions")
		want(t, a)
		add(t, a, "one", "two", "three")
		want(t, b, "one", "two", "three")
		add(t, b, "one", "one") // again
		want(t, a, "one", "two", "three")
		remove(t, b, "two", "never", "three", "three")
		want(t, a, "one")
		remove(t, a, "two") // again
		remove(t, a)
		want(t, b, "one")
		add(t, a, "two")
		want(t, b, "one", "two")
	})

	t.Run("keeps any id", func(t *testing.T) {
		s := open(t, "ids")
		ids := []string{strings.Repeat("x", record.MaxSessionIDBytes), strings.Repeat("é", record.MaxSessionIDBytes/2), "\x00", ":", "a:b", "\n.*"}
		add(t, s, ids...)
		want(t, s, ids...)
		remove(t, s, ids...)
		want(t, s)
	})

	t.Run("as many as are removed at once", func(t *testing.T) {
		s := open(t, "many")
		ids := make([]string, record.MaxSessionIDs)
		for i := range ids {
			ids[i] = fmt.Sprintf("%0*d", record.MaxSessionIDBytes, i)
		}
		add(t, s, ids[0], ids[500], ids[999])
		remove(t, s, ids...)
		want(t, s)
	})

	t.Run("refuses bad ids", func(t *testing.T) {
		s := open(t, "bad").(coordination.SessionStore)
		for _, id := range []string{"", strings.Repeat("x", record.MaxSessionIDBytes+1), "\xff"} {
			if err := s.AddSession(ctx, id); !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("AddSession(%.10q): %v", id, err)
			}
			if err := s.RemoveSessions(ctx, "fine", id); !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("RemoveSessions(%.10q): %v", id, err)
			}
		}
		if err := s.RemoveSessions(ctx, slices.Repeat([]string{"x"}, record.MaxSessionIDs+1)...); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("RemoveSessions of %d: %v", record.MaxSessionIDs+1, err)
		}
	})

	t.Run("oracles are independent", func(t *testing.T) {
		// Names that could be taken for a part of another's keys.
		names := []string{"apart", "apart:", "apart:x", "apart:x:", "ap"}
		for i, name := range names {
			add(t, open(t, name), "x", fmt.Sprint(i))
		}
		for i, name := range names {
			want(t, open(t, name), "x", fmt.Sprint(i))
		}
		remove(t, open(t, names[0]), "x", ":x", "x:x")
		for i, name := range names[1:] {
			want(t, open(t, name), "x", fmt.Sprint(i+1))
		}
	})

	t.Run("leaves the record alone", func(t *testing.T) {
		s := open(t, "record")
		one := first()
		if err := s.CompareAndSwap(ctx, State{}, one); err != nil {
			t.Fatal(err)
		}
		add(t, s, "x")
		two := one.successor()
		if err := s.CompareAndSwap(ctx, one, two); err != nil {
			t.Fatal(err)
		}
		want(t, s, "x")
		remove(t, s, "x")
		if got := stored(t, s); got != two {
			t.Errorf("the record is %+v, want %+v", got, two)
		}
	})

	t.Run("contexts end", func(t *testing.T) {
		s := open(t, "contexts").(coordination.SessionStore)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err := s.Sessions(ended)
		for op, err := range map[string]error{
			"AddSession": s.AddSession(ended, "x"), "RemoveSessions": s.RemoveSessions(ended, "x"), "Sessions": err,
		} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", op, err)
			}
		}
	})

	// The record's writes go on beside those of sessions, of one handle too.
	t.Run("at once", func(t *testing.T) {
		s := open(t, "at-once")
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for j := range 5 {
					if err := s.(coordination.SessionStore).AddSession(ctx, fmt.Sprintf("%d-%d", i, j)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Go(func() {
			var old State
			for next := first(); next.Version <= 10; next = next.successor() {
				if err := s.CompareAndSwap(ctx, old, next); err != nil {
					t.Error(err)
					return
				}
				old = next
			}
		})
		wg.Wait()
		if n := len(storedSessions(t, s)); n != 20 {
			t.Errorf("%d sessions are stored, want 20", n)
		}
	})

	t.Run("survive the oracle", func(t *testing.T) { sessionsSurvive(t, open) })
}

// sessionsSurvive checks that sessions outlive servers: one that hands over and one
// that dies.
func sessionsSurvive(t *testing.T, open func(t *testing.T, name string) Store) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	start := func(faults *faultySessions) (k serverSessions, stop func()) {
		server, err := NewServer(faults, ServerConfig{Lease: 600 * time.Millisecond, SessionLease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		runCtx, cancelRun := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- server.Run(runCtx) }()
		return serverSessions{server}, func() {
			cancelRun()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	a := newFaultySessions(open(t, "survive"))
	b := newFaultySessions(open(t, "survive"))
	c := newFaultySessions(open(t, "survive"))

	one, stopOne := start(a)
	var g grant
	eventually(t, "a session is open", func() (opened bool) {
		var err error
		g, err = one.open(ctx)
		return err == nil
	})
	stopOne()

	two, stopTwo := start(b)
	eventually(t, "the server that was started knows the session", func() bool {
		_, err := two.keepAlive(ctx, g.id)
		if errors.Is(err, errSessionEnded) {
			t.Fatal("a restart has ended the session")
		}
		return err == nil
	})

	three, stopThree := start(c)
	defer stopThree()
	b.freeze()
	eventually(t, "the successor of a server that died knows the session", func() bool {
		_, err := three.keepAlive(ctx, g.id)
		if errors.Is(err, errSessionEnded) {
			t.Fatal("a change of leader has ended the session")
		}
		return err == nil
	})
	if _, err := two.keepAlive(ctx, g.id); !errors.Is(err, ErrUnavailable) {
		t.Errorf("the former leader answers %v", err)
	}
	b.heal()
	stopTwo()
	ended, err := three.server.EndedSessions(ctx, g.id, "never")
	if err != nil || !slices.Equal(ended, []string{"never"}) {
		t.Errorf("ended are %q, %v", ended, err)
	}
	if err := three.end(ctx, g.id); err != nil {
		t.Error(err)
	}
	eventually(t, "the session is removed from the store", func() bool { return len(storedSessions(t, c.Store)) == 0 })
}

func TestSessionStoreMemory(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	stores := map[string]Store{}
	sessionConformance(t, func(_ *testing.T, name string) Store {
		mu.Lock()
		defer mu.Unlock()
		if stores[name] == nil {
			stores[name] = NewMemoryStore()
		}
		return stores[name]
	})
}

func TestSessionStoreBigtable(t *testing.T) {
	t.Parallel()
	open := startBigtable(t, BigtableTable)
	sessionConformance(t, func(t *testing.T, name string) Store { return NewBigtableStore(open(t), name) })

	// The rows of sessions are nobody else's.
	t.Run("keys", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		table := open(t)
		for _, key := range []string{"meta", "collector", "backfill:t.i"} {
			m := bigtable.NewMutation()
			m.Set(BigtableFamily, "other", 1000, []byte("kept"))
			if err := table.Apply(ctx, key, m); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"meta", "collector", strings.Repeat("n", record.MaxNameBytes)} {
			s := NewBigtableStore(table, name).(coordination.SessionStore)
			if err := s.AddSession(ctx, "x"); err != nil {
				t.Fatal(err)
			}
			if err := s.RemoveSessions(ctx, "x"); err != nil {
				t.Fatal(err)
			}
			// An oracle cannot have the name that a session's key would be.
			if err := record.CheckName(sessionPrefix(name) + "x"); err == nil {
				t.Errorf("the key of a session of %.10q may be an oracle's name", name)
			}
		}
		for _, key := range []string{"meta", "collector", "backfill:t.i"} {
			if row, err := table.ReadRow(ctx, key); err != nil || len(row[BigtableFamily]) != 1 {
				t.Errorf("row %q is %v, %v", key, row, err)
			}
		}
	})
}

// A store whose tables are older than sessions: the oracle serves timestamps, and says
// what is missing.
func TestSessionStoreWithoutTable(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newFaultySessions(NewMemoryStore())
		missing := &missingSessions{faultySessions: store, err: status.Error(codes.NotFound, "no table PercolatorOracleSessions")}
		a := startServer(t, missing, ServerConfig{})
		time.Sleep(time.Minute)
		a.mustTake(t, 1)
		_, err := a.EndedSessions(t.Context(), "x")
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "PercolatorOracleSessions") {
			t.Errorf("got %v", err)
		}
		if n := missing.reads.Load(); n > 100 {
			t.Errorf("the store was asked %d times in a minute", n)
		}
	})
}
