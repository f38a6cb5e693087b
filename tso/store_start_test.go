package tso

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/tso/internal/record"
)

// refusal runs a server that must not start, and returns why it did not.
func refusal(t *testing.T, store Store, cfg ServerConfig) error {
	t.Helper()
	server, err := NewServer(store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err = server.Run(ctx)
	if err == nil {
		t.Fatal("the server started")
	}
	if _, err := server.take(ctx, 1); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a server that has not started answers %v", err)
	}
	return err
}

// serveOne starts a server that must lead, and returns a timestamp of it.
func serveOne(t *testing.T, store Store, cfg ServerConfig) Timestamp {
	t.Helper()
	s := startServing(t, store, cfg)
	ts := mustNext(t, s)
	s.stop()
	if err := <-s.ended; err != nil {
		t.Errorf("the server ends with %v", err)
	}
	return ts
}

// conformanceOfStart runs what every store has to fulfil for servers to start, or to
// refuse to. open is as for conformance.
func conformanceOfStart(t *testing.T, open func(t *testing.T, name string) Store) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)

	t.Run("initialize", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 3 {
			s := open(t, "initialize")
			wg.Go(func() {
				if err := initialize(ctx, s, At(noon)+Timestamp(i)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		s := open(t, "initialize")
		one := stored(t, s)
		if one.Version != 1 || one.Epoch != 0 || one.held() || one.HighWater < At(noon) || one.HighWater > At(noon)+2 {
			t.Errorf("stored %+v", one)
		}
		if err := Initialize(ctx, s); err != nil {
			t.Errorf("once more: %v", err)
		}
		if again := stored(t, s); again != one {
			t.Errorf("initializing again changed %+v to %+v", one, again)
		}
	})

	t.Run("a record is required", func(t *testing.T) {
		s := open(t, "required")
		err := refusal(t, s, ServerConfig{RequireRecord: true})
		if !errors.Is(err, ErrNoRecord) || !strings.Contains(err.Error(), "initialize") || !strings.Contains(err.Error(), "raise") {
			t.Errorf("without a record: %v", err)
		}
		if st := stored(t, s); st != (State{}) {
			t.Errorf("it stored %+v", st)
		}
		before := At(time.Now())
		if err := Initialize(ctx, s); err != nil {
			t.Fatal(err)
		}
		mark := stored(t, s).HighWater
		if ts := serveOne(t, s, ServerConfig{RequireRecord: true}); ts <= mark || mark < before {
			t.Errorf("initialized at %d with the mark %d, then served %d", before, mark, ts)
		}
	})

	t.Run("more was served than the record says", func(t *testing.T) {
		s := open(t, "served")
		var served Timestamp
		cfg := ServerConfig{Served: func(context.Context) (Timestamp, error) { return served, nil }}
		served = 4711
		if err := refusal(t, s, cfg); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "mark is 0") || !strings.Contains(err.Error(), "4711") {
			t.Errorf("without a record: %v", err)
		}
		served = 0
		last := serveOne(t, s, cfg)
		mark := stored(t, s).HighWater
		served = mark + 1
		err := refusal(t, s, cfg)
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), fmt.Sprint(mark)) || !strings.Contains(err.Error(), fmt.Sprint(served)) {
			t.Errorf("the mark is %d and %d was served: %v", mark, served, err)
		}
		if err := Raise(ctx, s, served); err != nil {
			t.Fatal(err)
		}
		if ts := serveOne(t, s, cfg); ts <= served || ts <= last {
			t.Errorf("after the mark was raised to %d, %d was served", served, ts)
		}
	})

	t.Run("raise a record that is missing", func(t *testing.T) {
		s := open(t, "raise-missing")
		if err := Raise(ctx, s, 5000); err != nil {
			t.Fatal(err)
		}
		if st := stored(t, s); st.Version != 1 || st.HighWater != 5000 || st.held() {
			t.Errorf("stored %+v", st)
		}
	})

	t.Run("raise never lowers", func(t *testing.T) {
		s := open(t, "raise-lower")
		if err := initialize(ctx, s, 5000); err != nil {
			t.Fatal(err)
		}
		one := stored(t, s)
		for _, to := range []Timestamp{1, 4999, 5000} {
			if err := Raise(ctx, s, to); err != nil {
				t.Error(err)
			}
			if st := stored(t, s); st != one {
				t.Errorf("raised to %d: %+v, was %+v", to, st, one)
			}
		}
		for _, to := range []Timestamp{-1, 0, MaxTimestamp + 1} {
			if err := Raise(ctx, s, to); !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("raised to %d: %v", to, err)
			}
		}
	})

	t.Run("raise while the lease is held", func(t *testing.T) {
		s := open(t, "raise-held")
		one := first()
		one.Lease = 50 * time.Millisecond
		if err := s.CompareAndSwap(ctx, State{}, one); err != nil {
			t.Fatal(err)
		}
		started := time.Now()
		if err := Raise(ctx, s, one.HighWater-1); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(started); waited < one.Lease {
			t.Errorf("waited %v for a lease of %v", waited, one.Lease)
		}
		st := stored(t, s)
		if st.HighWater != one.HighWater || st.Epoch != one.Epoch+1 || st.Holder == one.Holder || !st.held() || st.Lease != one.Lease || st.Address != "" {
			t.Errorf("stored %+v after %+v", st, one)
		}
	})

	t.Run("raise under a leader", func(t *testing.T) {
		s := open(t, "raise-leader")
		leader := startServing(t, s, ServerConfig{Lease: 600 * time.Millisecond, Window: time.Second})
		before := mustNext(t, leader)
		to := before + 3600*second
		if err := Raise(ctx, s, to); err != nil {
			t.Fatal(err)
		}
		if after := mustNext(t, leader); after <= to {
			t.Errorf("%d was served after the mark was raised to %d", after, to)
		}
	})
}

// What is known to have been served is asked for before the record is read, or a
// leader that goes on meanwhile would make it look old.
func TestStoreServedIsAskedForFirst(t *testing.T) {
	t.Parallel()
	memory := NewMemoryStore()
	var loads atomic.Int64
	store := &loadStore{Store: memory, load: func() (State, error) { loads.Add(1); return memory.Load(context.Background()) }}
	var asked int
	ts := serveOne(t, store, ServerConfig{Served: func(ctx context.Context) (Timestamp, error) {
		if loads.Load() > 0 {
			t.Error("the record was read first")
		}
		if _, ok := ctx.Deadline(); !ok {
			t.Error("without a deadline")
		}
		if asked++; asked < 3 {
			return 0, errStore // is tried again
		}
		return 0, nil
	}})
	if ts == 0 || asked != 3 {
		t.Errorf("asked %d times", asked)
	}
	lost := ServerConfig{Served: func(context.Context) (Timestamp, error) { return 0, record.Corruptf("no such table") }}
	if err := refusal(t, memory, lost); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "no such table") {
		t.Errorf("got %v", err)
	}
}

// Raise says so when it could not wait for the lease to its end: the mark is raised.
func TestStoreRaiseIsCutShort(t *testing.T) {
	t.Parallel()
	store := NewMemoryStore()
	one := first()
	one.Lease = time.Hour
	if err := store.CompareAndSwap(t.Context(), State{}, one); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := Raise(ctx, store, 5000); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the mark is raised") {
		t.Errorf("got %v", err)
	}
	if st := stored(t, store); st.HighWater != 5000 || st.Lease != time.Hour {
		t.Errorf("stored %+v", st)
	}
}

// fencedStore is a store in which somebody else is always faster.
type fencedStore struct {
	Store
	tries int
}

func (s *fencedStore) CompareAndSwap(context.Context, State, State) error {
	s.tries++
	return ErrFenced
}

func TestStoreRaiseGivesUp(t *testing.T) {
	t.Parallel()
	store := &fencedStore{Store: NewMemoryStore()}
	if err := Raise(t.Context(), store, 5000); !errors.Is(err, ErrFenced) || store.tries != raiseAttempts {
		t.Errorf("after %d tries: %v", store.tries, err)
	}
	damaged := &loadStore{Store: NewMemoryStore(), load: func() (State, error) { return State{}, record.Corruptf("found rubbish") }}
	if err := Raise(t.Context(), damaged, 5000); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "rubbish") {
		t.Errorf("a store that cannot be repaired: %v", err)
	}
}

// weakStore is a store with a warning.
type weakStore struct{ Store }

func (weakStore) Warning() string { return "it forgets" }

func TestStoreWarnsOnce(t *testing.T) {
	t.Parallel()
	if _, ok := NewBigtableStore(nil, "default").(warner); !ok {
		t.Error("the store in Bigtable does not say what it cannot promise")
	}
	var log lockedLog
	serveOne(t, weakStore{NewMemoryStore()}, ServerConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if n := strings.Count(log.String(), "it forgets"); n != 1 {
		t.Errorf("warned %d times:\n%s", n, log.String())
	}
}

// lockedLog collects a log for several goroutines.
type lockedLog struct {
	mu  sync.Mutex
	log strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.String()
}

// A server that waits for what it needs at its start says so once.
func TestStartComplainsOnce(t *testing.T) {
	for line, c := range map[string]struct {
		cfg  ServerConfig
		down bool
	}{
		"what was served is not known":       {cfg: ServerConfig{Served: func(context.Context) (Timestamp, error) { return 0, errors.New("no answer") }}},
		"the oracle's store does not answer": {down: true},
	} {
		t.Run(line, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := newFaultyStore(NewMemoryStore())
				if c.down {
					store.inject(func(string) fault { return refused })
				}
				var log strings.Builder // read only when the server has ended
				cfg := c.cfg
				cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
				s := startServer(t, store, cfg)
				time.Sleep(time.Minute)
				s.stop()
				if err := s.wait(t); err != nil {
					t.Error(err)
				}
				if n := strings.Count(log.String(), line); n != 1 {
					t.Errorf("%d lines in a minute:\n%s", n, log.String())
				}
			})
		})
	}
}
