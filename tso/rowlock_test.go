package tso

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/tso/coordination"
)

// mustLock expects that a holder gets so many of rows.
func mustLock(t *testing.T, locks coordination.RowLocks, holder string, rows []uint64, want int) {
	t.Helper()
	locked, err := locks.LockRows(t.Context(), holder, 10*time.Second, rows)
	if err != nil || locked != want {
		t.Fatalf("%s locked %d of %v, %v; want %d", holder, locked, rows, err, want)
	}
}

func TestRowLocks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := startLeader(t, NewMemoryStore(), ServerConfig{})
		mustLock(t, a, "one", []uint64{5, 3, 9}, 3)
		mustLock(t, a, "one", []uint64{9, 5}, 2) // what it has
		mustLock(t, a, "one", []uint64{5, 5}, 2)

		// In order, up to the first that another has.
		mustLock(t, a, "two", []uint64{7, 8, 3, 1}, 2)
		mustLock(t, a, "three", []uint64{1, 7}, 1)
		mustLock(t, a, "three", []uint64{9}, 0)
		mustLock(t, a, "three", nil, 0)

		// Only the holder unlocks.
		if err := a.UnlockRows(t.Context(), "two", []uint64{5, 3, 100}); err != nil {
			t.Fatal(err)
		}
		mustLock(t, a, "three", []uint64{3}, 0)
		if err := a.UnlockRows(t.Context(), "one", []uint64{3, 3}); err != nil {
			t.Fatal(err)
		}
		mustLock(t, a, "three", []uint64{3, 5}, 1)

		// They expire unless they are renewed, to the nanosecond.
		time.Sleep(10*time.Second - 1)
		mustLock(t, a, "four", []uint64{5}, 0)
		mustLock(t, a, "one", []uint64{9}, 1)
		time.Sleep(time.Nanosecond)
		mustLock(t, a, "four", []uint64{5, 9}, 1)
	})
}

func TestRowLockLimits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := startLeader(t, NewMemoryStore(), ServerConfig{MaxRowLocks: 3})
		time.Sleep(rowLockSweep / 2) // what has expired is there until the next sweep
		mustLock(t, a, "one", []uint64{1, 2}, 2)
		mustLock(t, a, "one", []uint64{1, 2, 3, 4, 5}, 3)
		if locked, err := a.LockRows(t.Context(), "one", time.Second, []uint64{4}); locked != 0 || !errors.Is(err, ErrLimit) {
			t.Errorf("one too many: %d, %v", locked, err)
		}
		mustLock(t, a, "one", []uint64{3, 1}, 2) // renewing is not locking
		time.Sleep(10 * time.Second)
		mustLock(t, a, "two", []uint64{4, 5, 6}, 3)

		many := make([]uint64, maxRowLockRows+1)
		for name, c := range map[string]struct {
			holder string
			ttl    time.Duration
			rows   []uint64
		}{
			"no holder":              {"", time.Second, nil},
			"a long holder":          {strings.Repeat("h", maxRowLockHolder+1), time.Second, nil},
			"a holder without UTF-8": {"\xff", time.Second, nil},
			"no time":                {"h", 0, nil},
			"too little time":        {"h", minRowLockTTL - 1, nil},
			"too much time":          {"h", maxRowLockTTL + 1, nil},
			"too many rows":          {"h", time.Second, many},
		} {
			if _, err := a.LockRows(t.Context(), c.holder, c.ttl, c.rows); !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("locking with %s: %v", name, err)
			}
			if c.ttl != time.Second {
				continue
			}
			if err := a.UnlockRows(t.Context(), c.holder, c.rows); !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("unlocking with %s: %v", name, err)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := a.LockRows(ended, "h", time.Second, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: %v", err)
		}
	})
}

// A change of leader loses the locks, and nobody gets an error for it.
func TestRowLocksAreLostWithTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := NewMemoryStore()
		a := startLeader(t, store, ServerConfig{})
		b := startLeader(t, store, ServerConfig{})
		rows := []uint64{1, 2, 3}
		mustLock(t, a, "one", rows, 3)
		if _, err := b.LockRows(t.Context(), "two", time.Second, rows); !errors.Is(err, ErrNotLeader) {
			t.Errorf("a follower answers %v", err)
		}
		a.stop()
		if err := a.wait(t); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		mustLock(t, b, "two", rows[:1], 1)
		mustLock(t, b, "one", rows, 0)
		if err := b.UnlockRows(t.Context(), "one", rows); err != nil { // of the locks it had
			t.Error(err)
		}
		mustLock(t, b, "three", rows, 0)
		if _, err := a.LockRows(t.Context(), "one", time.Second, rows); !errors.Is(err, ErrClosed) {
			t.Errorf("the server that has ended answers %v", err)
		}
	})
}

// Expired locks leave the memory, a bounded number at a time, when nobody calls too.
func TestRowLocksAreSwept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := startLeader(t, NewMemoryStore(), ServerConfig{})
		table := a.liveness.current.Load().rowLocks
		rows := make([]uint64, maxRowLockRows)
		for i := range 4 {
			for j := range rows {
				rows[j] = uint64(i*len(rows) + j)
			}
			mustLock(t, a, "one", rows, len(rows))
		}
		time.Sleep(rowLockSweep - 2) // before a sweep
		if _, err := a.LockRows(t.Context(), "two", time.Minute, []uint64{1 << 40}); err != nil {
			t.Fatal(err)
		}
		if n := table.count(); n != 4*maxRowLockRows+1 {
			t.Fatalf("%d locks before they expire", n)
		}
		time.Sleep(2 * rowLockSweep)
		if n := table.count(); n != 1 {
			t.Errorf("%d locks are left, want 1", n)
		}

		// A call removes no more than twice its rows.
		mustLock(t, a, "one", rows, len(rows))
		table.mu.Lock()
		swept := table.sweep(1<<62, 2)
		table.mu.Unlock()
		if swept != 2 || table.count() != len(rows)-1 {
			t.Errorf("%d were swept, %d are left", swept, table.count())
		}
	})
}

// A peer that locks rows without end leaves room for others, until its locks have expired.
func TestRowLocksAreShared(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := startLeader(t, NewMemoryStore(), ServerConfig{MaxRowLocks: 8})
		lock := func(host string, rows ...uint64) int {
			t.Helper()
			n, err := a.LockRows(from(t.Context(), host), host, time.Second, rows)
			if err != nil && !errors.Is(err, ErrLimit) {
				t.Fatal(err)
			}
			return n
		}
		for _, step := range []struct {
			host string
			rows []uint64
			want int
		}{
			{"192.0.2.1", []uint64{1, 2, 3}, 2}, {"192.0.2.1", []uint64{3}, 0}, {"192.0.2.1", []uint64{2, 1}, 2},
			{"192.0.2.2", []uint64{3, 4, 5}, 2},
		} {
			if got := lock(step.host, step.rows...); got != step.want {
				t.Errorf("%s locked %d of %v, want %d", step.host, got, step.rows, step.want)
			}
		}
		time.Sleep(2 * time.Second)
		if got := lock("192.0.2.1", 6, 7); got != 2 {
			t.Errorf("when its locks have expired: %d", got)
		}
	})
}

// Whatever is done in whatever order: what a model with a map does.
func TestRowLockModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const most = 12
		clock := newManualClock()
		table := newRowLockTable(most, 100, clock.clock().mono)
		type lock struct {
			holder  string
			expires time.Duration
		}
		model := map[uint64]lock{}
		holders := rapid.SampledFrom([]string{"one", "two", "three"})
		someRows := rapid.SliceOfN(rapid.Uint64Range(0, 20), 0, 8)
		t.Repeat(map[string]func(*rapid.T){
			"lock": func(t *rapid.T) {
				holder, rows := holders.Draw(t, "holder"), someRows.Draw(t, "rows")
				ttl := time.Duration(rapid.IntRange(1, 20).Draw(t, "ms")) * time.Millisecond
				got, err := table.lock("", holder, ttl, rows)
				want := 0
				now := clock.clock().mono()
				for _, row := range rows {
					if l, ok := model[row]; ok && l.holder != holder && l.expires > now {
						break
					}
					model[row] = lock{holder, now + ttl}
					want++
				}
				// At the limit it may be fewer: expired ones are still there.
				if got > want || got < want && len(table.locks) < most || errors.Is(err, ErrLimit) != (err != nil) || err != nil && got > 0 {
					t.Fatalf("locked %d, %v, want %d", got, err, want)
				}
				for _, row := range rows[got:] { // what the limit refused
					if l, ok := table.locks[row]; ok {
						model[row] = lock{l.holder, l.expires}
					} else {
						delete(model, row)
					}
				}
			},
			"unlock": func(t *rapid.T) {
				holder, rows := holders.Draw(t, "holder"), someRows.Draw(t, "rows")
				table.unlock(holder, rows)
				for _, row := range rows {
					if model[row].holder == holder {
						delete(model, row)
					}
				}
			},
			"wait": func(t *rapid.T) {
				clock.advance(time.Duration(rapid.IntRange(1, 15).Draw(t, "ms")) * time.Millisecond)
			},
			"": func(t *rapid.T) {
				now := clock.clock().mono()
				if len(table.locks) != table.byExpiry.Len() || len(table.locks) > most {
					t.Fatalf("%d locks, %d to expire, at most %d", len(table.locks), table.byExpiry.Len(), most)
				}
				for i, l := range table.byExpiry.All() {
					if l.index != i || table.locks[l.row] != l || i > 0 && l.expires < table.byExpiry.All()[(i-1)/2].expires {
						t.Fatalf("lock %d is out of order: %+v", i, l)
					}
					if model[l.row] != (lock{l.holder, l.expires}) && l.expires > now {
						t.Fatalf("row %d is locked as %+v, want %+v", l.row, l, model[l.row])
					}
				}
				for row, l := range model {
					if _, ok := table.locks[row]; !ok && l.expires > now {
						t.Fatalf("row %d is not locked, want %+v", row, l)
					}
				}
			},
		})
	})
}

// Many holders at once: a row has one holder.
func TestRowLocksExclude(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := startLeader(t, NewMemoryStore(), ServerConfig{})
		rows := []uint64{1, 2, 3, 4}
		holding := make(chan string, 1)
		for _, holder := range []string{"one", "two", "three", "four"} {
			go func() {
				for range 200 {
					if locked, err := a.LockRows(t.Context(), holder, time.Minute, rows); err != nil {
						t.Error(err)
					} else if locked == len(rows) {
						select {
						case holding <- holder:
							time.Sleep(time.Millisecond)
							<-holding
						default:
							t.Error("two hold all rows")
						}
					}
					if err := a.UnlockRows(t.Context(), holder, rows); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Millisecond)
				}
			}()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		mustLock(t, a, "five", slices.Clone(rows), len(rows))
	})
}
