package store

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
)

// scripted answers each MutateRows by the next of its answers, and each other request by serve.
type scripted struct {
	crowded
	answers []func(rows []string) ([]error, error)
	asked   [][]string
}

func (s *scripted) MutateRows(ctx context.Context, _ string, rows []string, _ []*Mutation) ([]error, error) {
	s.mu.Lock()
	s.asked = append(s.asked, slices.Clone(rows))
	answer := s.answers[0]
	s.answers = s.answers[1:]
	s.mu.Unlock()
	return answer(rows)
}

// An entry that was refused for good stays refused, whatever becomes of the repetition of the
// others: here the next attempt is refused as a whole, and the third succeeds.
func TestRefusedEntryIsNotForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		busy := status.Error(codes.ResourceExhausted, "limit of total mutations in your queue")
		b := &scripted{answers: []func([]string) ([]error, error){
			func([]string) ([]error, error) {
				return []error{status.Error(codes.InvalidArgument, "the row is refused for good"), busy}, nil
			},
			func([]string) ([]error, error) { return nil, busy },
			func([]string) ([]error, error) { return nil, nil },
		}}
		s := New(t.Context(), b, &telemetry.Counters{})
		defer s.Stop()
		errs, err := s.MutateRows(t.Context(), "t", []string{"bad", "good"}, []*Mutation{NewMutation(1), NewMutation(1)})
		if err != nil || len(errs) != 2 || status.Code(errs[0]) != codes.InvalidArgument || errs[1] != nil {
			t.Errorf("%v, %v after %v: the row that was refused counts as written", errs, err, b.asked)
		}
	})
}

// mutationsOf is a mutation with so many changes.
func mutationsOf(n int) *Mutation {
	m := NewMutation(n)
	for range n {
		m.Erase(layout.DataFamily, "c", 1)
	}
	return m
}

// quicken answers later requests within a millisecond.
func (s *crowded) quicken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes = time.Millisecond
}

// Reads need no room for mutations: a bulk that waits for it holds up none.
func TestReadsPassMutationsThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newCrowded(t)
		b.takes = 28 * time.Second // the rows of a tablet that no server has
		var all sync.WaitGroup
		defer all.Wait()
		large := mutationsOf(60_000)
		for range 2 { // one is in flight, one waits
			all.Go(func() { _ = s.Mutate(t.Context(), "t", "r", large) })
			synctest.Wait()
		}
		b.quicken()
		started := time.Now()
		if _, err := s.ReadRow(t.Context(), "t", "r", AllLocks()); err != nil || time.Since(started) > time.Second {
			t.Errorf("a read in the calm state: %v after %v", err, time.Since(started))
		}
	})
}

// Who stands behind a request that gives up waiting goes.
func TestWaiterBehindOneThatLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newCrowded(t)
		b.takes = 28 * time.Second
		var all sync.WaitGroup
		defer all.Wait()
		all.Go(func() { _ = s.Mutate(t.Context(), "t", "r", mutationsOf(60_000)) })
		synctest.Wait()
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_ = s.Mutate(ctx, "t", "r", mutationsOf(60_000))
		})
		synctest.Wait()
		b.quicken()
		started := time.Now()
		if err := s.Mutate(t.Context(), "t", "r", mutationsOf(1)); err != nil || time.Since(started) > 2*time.Second {
			t.Errorf("a mutation for which there is room: %v after %v", err, time.Since(started))
		}
	})
}

// Bulks in the background, such as an import's whose tablet no server has, leave room for the
// mutations of transactions.
func TestBulksInTheBackgroundLeaveRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newCrowded(t)
		b.takes = 28 * time.Second
		var all sync.WaitGroup
		defer all.Wait()
		large := mutationsOf(60_000)
		for range 8 {
			all.Go(func() { _ = s.Mutate(InBackground(t.Context()), "t", "r", large) })
		}
		synctest.Wait()
		b.quicken()
		started := time.Now()
		if _, err := s.CheckAndMutate(t.Context(), "t", "r", AllLocks(), mutationsOf(2), nil); err != nil || time.Since(started) > time.Second {
			t.Errorf("a commit beside bulks in the background: %v after %v", err, time.Since(started))
		}
	})
}

// What is left of a bulk in the background that gives up waiting is room again.
func TestBulkInTheBackgroundThatGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newCrowded(t)
		b.takes = 5 * time.Second
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { _ = s.Mutate(t.Context(), "t", "r", mutationsOf(60_000)) })
		}
		synctest.Wait()
		for range 4 {
			ctx, cancel := context.WithTimeout(InBackground(t.Context()), time.Second)
			defer cancel()
			all.Go(func() { _ = s.Mutate(ctx, "t", "r", mutationsOf(60_000)) })
		}
		all.Wait()
		p := s.Pressure.of(pressed{"t", false})
		if !p.room.TryAcquire(outstandingMost) || !p.behind.TryAcquire(outstandingMost/2) {
			t.Error("nothing is in flight, and there is not all the room")
		}
	})
}

// A large bulk in the background goes although the foreground always has some mutation in flight,
// and Bigtable has asked for nothing.
func TestLargeBulkInTheBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newCrowded(t)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		for i := range 2 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * b.takes / 2)
				for ctx.Err() == nil {
					_, _ = s.CheckAndMutate(ctx, "t", "r", AllLocks(), mutationsOf(2), nil)
				}
			})
		}
		time.Sleep(time.Second)
		started := time.Now()
		if err := s.Mutate(InBackground(ctx), "t", "row", mutationsOf(100_000)); err != nil {
			t.Errorf("a bulk of 100,000 mutations beside two writers, nothing asked (%d): %v after %v", s.Pressure.Asked.Load(), err, time.Since(started))
		}
	})
}

// A mutation that may wait longer than its neighbour in a request is sent again: as where the
// request as a whole is cut off, so where its rows are told to come later.
func TestBulkNeighbourEndsFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &refusesRows{until: time.Now().Add(5 * time.Second)}
		s := New(t.Context(), b, &telemetry.Counters{})
		defer s.Stop()
		w := NewBulkWriter(t.Context(), s)
		errs := make([]error, 2)
		var all sync.WaitGroup
		all.Add(2)
		muts := make([]RowMutation, 2)
		for i, after := range []time.Duration{time.Second, 25 * time.Second} {
			muts[i] = RowMutation{Table: "t", Row: []string{"short", "long"}[i], Mut: mutationsOf(1), Deadline: time.Now().Add(after),
				Done: func(err error) { errs[i] = err; all.Done() }}
		}
		w.Offer(t.Context()).Add(muts...)
		all.Wait()
		if errs[1] != nil {
			t.Errorf("a mutation with 25 s, in an overload of 5 s: %v", errs[1])
		}
	})
}

// refusesRows answers each row of a bulk with RESOURCE_EXHAUSTED for a time.
type refusesRows struct {
	Backend
	until time.Time
}

func (b *refusesRows) MutateRows(ctx context.Context, _ string, rows []string, _ []*Mutation) ([]error, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Millisecond):
	}
	if !time.Now().Before(b.until) {
		return nil, nil
	}
	return slices.Repeat([]error{status.Error(codes.ResourceExhausted, "slow down")}, len(rows)), nil
}

func (b *refusesRows) SampleKeys(context.Context, string) ([]string, error) { return nil, nil }

// A client that closes keeps nobody waiting for admission.
func TestCloseEndsWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newCrowded(t)
		b.refuse = refuseFor(time.Hour, codes.ResourceExhausted, 25*time.Second)
		started := time.Now()
		var took atomic.Int64
		var all sync.WaitGroup
		all.Go(func() {
			_, _ = s.ReadRow(t.Context(), "t", "r", AllLocks())
			took.Store(int64(time.Since(started)))
		})
		time.Sleep(time.Second)
		s.Stop()
		all.Wait()
		if d := time.Duration(took.Load()); d > 2*time.Second {
			t.Errorf("a read ended %v after it began, the client closed after 1 s", d)
		}
	})
}

// What no server has answered allows nothing more: a request that was never sent, and one that ran
// out of time.
func TestNoAnswerIsNoAllowance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newCrowded(t)
		b.refuse = refuseFor(time.Millisecond, codes.ResourceExhausted, 0)
		if _, err := s.ReadRow(t.Context(), "t", "r", AllLocks()); err != nil {
			t.Fatal(err)
		}
		p := s.Pressure.of(pressed{"t", false})
		b.mu.Lock()
		b.takes = time.Hour
		b.mu.Unlock()
		p.mu.Lock()
		p.limit, p.slow = 4, 100
		before := p.limit
		p.mu.Unlock()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				_, _ = s.ReadRow(ctx, "t", "r", AllLocks())
			})
		}
		all.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.limit > before {
			t.Errorf("four requests without an answer let the limit grow from %d to %d", before, p.limit)
		}
	})
}

// Background work that is refused (by a profile of its own, which Bigtable serves last) leaves the
// foreground, which is served, as it was.
func TestBackgroundIsRefusedAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newCrowded(t)
		s.Pressure.divided = true
		var inBackground atomic.Bool
		b.refuse = nil
		refuse := refuseFor(time.Hour, codes.ResourceExhausted, 20*time.Second)
		b.refuse = func() error {
			if inBackground.Load() {
				return refuse()
			}
			return nil
		}
		inBackground.Store(true)
		ctx, cancel := context.WithTimeout(InBackground(t.Context()), time.Second)
		defer cancel()
		_, _ = s.ReadRow(ctx, "t", "r", AllLocks())
		inBackground.Store(false)
		started := time.Now()
		if _, err := s.ReadRow(t.Context(), "t", "r", AllLocks()); err != nil || time.Since(started) > 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(started))
		}
	})
}

// Background work comes forward, if slowly, in an overload that lasts: half of what is allowed is
// its own, say the docs.
func TestBackgroundInALastingOverload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newCrowded(t)
		b.capacity = 10
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		for range 40 {
			all.Go(func() {
				for ctx.Err() == nil {
					_, _ = s.ReadRow(ctx, "t", "r", AllLocks())
				}
			})
		}
		served, failed := 0, 0
		for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); {
			if _, err := s.ReadRow(InBackground(ctx), "t", "r", AllLocks()); err != nil {
				failed++
			} else {
				served++
			}
		}
		if served == 0 || failed > 0 {
			t.Errorf("two minutes of overload served %d requests in the background, and failed %d after 30 s each", served, failed)
		}
	})
}

// A pressure ends with its last pause: who waits for it is a sign of pressure.
func TestPressureLastsAsLongAsItsPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newCrowded(t)
		b.refuse = refuseFor(time.Second, codes.ResourceExhausted, 25*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = s.ReadRow(ctx, "t", "r", AllLocks())
		time.Sleep(15 * time.Second)
		var all sync.WaitGroup
		all.Go(func() { _, _ = s.ReadRow(t.Context(), "t", "r", AllLocks()) })
		synctest.Wait()
		p := s.Pressure.of(pressed{"t", false})
		p.mu.Lock()
		waits := p.waiting[foreground].Len()
		p.mu.Unlock()
		if waits > 0 && len(s.Pressure.Tables()) == 0 {
			t.Error("requests wait because of its pressure, and no table is under pressure")
		}
		all.Wait()
	})
}

// The pressure ends although some mutation always waits for room: that is this client's own bound.
func TestPressureEndsBesideABulkLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newCrowded(t)
		b.takes = 300 * time.Millisecond
		b.refuse = refuseFor(time.Millisecond, codes.ResourceExhausted, 0)
		if _, err := s.ReadRow(t.Context(), "t", "r", AllLocks()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		large := mutationsOf(60_000)
		for range 3 {
			all.Go(func() {
				for ctx.Err() == nil {
					_ = s.Mutate(ctx, "t", "r", large)
				}
			})
		}
		time.Sleep(5 * time.Minute)
		started := time.Now()
		_ = s.Pressure.GiveWay(ctx)
		if got := s.Pressure.Tables(); len(got) > 0 || time.Since(started) > time.Second {
			t.Errorf("five minutes after the only refusal: under pressure %v, and workers give way for %v", got, time.Since(started))
		}
	})
}

// locksHandler looks whether requests to table t could go on while it logs.
type locksHandler struct {
	slog.Handler
	s    *Store
	held *bool
}

func (locksHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h locksHandler) Handle(context.Context, slog.Record) error {
	p := h.s.Pressure.of(pressed{"t", false})
	if !p.mu.TryLock() {
		*h.held = true
		return nil
	}
	p.mu.Unlock()
	return nil
}

// A logger that takes its time, such as a full pipe, holds up no request.
func TestSlowLogger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newCrowded(t)
		held := false
		s.Pressure.Logger = slog.New(locksHandler{s: s, held: &held})
		b.refuse = refuseFor(time.Millisecond, codes.ResourceExhausted, 0)
		_, _ = s.ReadRow(t.Context(), "t", "r", AllLocks())
		if held {
			t.Error("while it is logged that Bigtable asks to slow down, every request to the table waits")
		}
	})
}

// The error of a request that was never sent names its table once, does not blame Bigtable where
// Bigtable has asked for nothing, and leaves nothing open.
func TestErrorOfARequestThatWasNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newCrowded(t)
		b.takes = 28 * time.Second
		var all sync.WaitGroup
		defer all.Wait()
		large := mutationsOf(60_000)
		all.Go(func() { _ = s.Mutate(t.Context(), "t", "r", large) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := s.Mutate(ctx, "t", "r", large)
		if n := strings.Count(err.Error(), `table "t"`); n != 1 {
			t.Errorf("names the table %d times: %v", n, err)
		}
		if errors.Is(err, model.ErrOverloaded) && s.Pressure.Asked.Load() == 0 {
			t.Errorf("blames Bigtable, which has asked for nothing: %v", err)
		}
	})
}
