package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
)

// crowded is a store of rows r000 to r099 that refuses what exceeds its capacity, and everything
// while refuse says so.
type crowded struct {
	Backend
	takes time.Duration

	mu       sync.Mutex
	capacity int // requests at once; 0: any number
	refuse   func() error
	after    int // rows of a read that come before it is refused
	inFlight int
	most     int
	sent     int
	visited  []string
	applied  []string
}

func (s *crowded) serve(ctx context.Context) error {
	s.mu.Lock()
	s.sent++
	if s.refuse != nil {
		if err := s.refuse(); err != nil {
			s.mu.Unlock()
			return err
		}
	}
	if s.capacity > 0 && s.inFlight >= s.capacity {
		s.mu.Unlock()
		return status.Error(codes.ResourceExhausted, "limit of requests in your queue")
	}
	s.inFlight++
	s.most = max(s.most, s.inFlight)
	takes := s.takes
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inFlight--
	}()
	select {
	case <-time.After(takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *crowded) CheckAndMutate(ctx context.Context, _, _ string, _ Query, _, _ *Mutation) (bool, error) {
	return true, s.serve(ctx)
}

func (s *crowded) ReadRow(ctx context.Context, _, row string, _ Query) (layout.Row, error) {
	return layout.Row{Key: row}, s.serve(ctx)
}

func (s *crowded) ReadRows(ctx context.Context, _ string, rows Rows, _ Query, limit int, _ func(string), visit func(layout.Row) bool) error {
	err := s.serve(ctx)
	n := 0
	for i := range 100 {
		key := fmt.Sprintf("r%03d", i)
		if rows.Reverse {
			key = fmt.Sprintf("r%03d", 99-i)
		}
		named := rows.Keys == nil && len(rows.Ranges) == 0 || slices.Contains(rows.Keys, key) ||
			slices.ContainsFunc(rows.Ranges, func(r model.Range) bool { return catalog.InRange(r, key) })
		if !named {
			continue
		}
		if err != nil && n == s.after || limit > 0 && n == limit {
			break
		}
		n++
		s.visited = append(s.visited, key)
		if !visit(layout.Row{Key: key}) {
			return nil
		}
	}
	return err
}

func (s *crowded) MutateRows(ctx context.Context, _ string, rows []string, _ []*Mutation) ([]error, error) {
	err := s.serve(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for i, r := range rows {
		if err != nil && i%2 == 0 {
			if errs == nil {
				errs = make([]error, len(rows))
			}
			errs[i] = err
			continue
		}
		s.applied = append(s.applied, r)
	}
	return errs, nil
}

func (s *crowded) SampleKeys(ctx context.Context, _ string) ([]string, error) {
	return nil, s.serve(ctx)
}

// refuseFor refuses everything for a time, with a time to wait if told.
func refuseFor(d time.Duration, code codes.Code, told time.Duration) func() error {
	until := time.Now().Add(d)
	st := status.New(code, "slow down")
	if told > 0 {
		st, _ = st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(told)})
	}
	return func() error {
		if time.Now().Before(until) {
			return st.Err()
		}
		return nil
	}
}

func newCrowded(t *testing.T) (*crowded, *Store) {
	b := &crowded{takes: 5 * time.Millisecond}
	s := New(t.Context(), b, &telemetry.Counters{})
	t.Cleanup(s.Stop)
	return b, s
}

// Two seconds of RESOURCE_EXHAUSTED fail no operation whose context lives, and the answers are
// complete: each row once.
func TestSlowDownFailsNothing(t *testing.T) {
	t.Parallel()
	all := make([]string, 100)
	for i := range all {
		all[i] = fmt.Sprintf("r%03d", i)
	}
	backwards := slices.Clone(all)
	slices.Reverse(backwards)
	read := func(rows Rows, limit int, want []string) func(*Store, *crowded) error {
		return func(s *Store, b *crowded) error {
			b.after = 7
			var got []string
			err := s.ReadRows(context.Background(), "t", rows, AllLocks(), limit, func(r layout.Row) bool {
				got = append(got, r.Key)
				return true
			})
			if !slices.Equal(got, want) {
				return errors.Join(err, fmt.Errorf("visited %v", got))
			}
			return err
		}
	}
	for name, do := range map[string]func(*Store, *crowded) error{
		"read": func(s *Store, _ *crowded) error {
			_, err := s.ReadRow(context.Background(), "t", "r", AllLocks())
			return err
		},
		"sample":    func(s *Store, _ *crowded) error { _, err := s.SampleKeys(context.Background(), "t"); return err },
		"scan":      read(Rows{}, 0, all),
		"few rows":  read(Rows{}, 30, all[:30]),
		"ranges":    read(Rows{Ranges: catalog.Union(model.Between("r010", "r020"), model.Between("r030", "r035"))}, 0, slices.Concat(all[10:20], all[30:35])),
		"backwards": read(Rows{Reverse: true}, 0, backwards),
		"keys":      read(Rows{Keys: all[5:25]}, 0, all[5:25]),
		"mutations": func(s *Store, b *crowded) error {
			errs, err := s.MutateRows(context.Background(), "t", all, slices.Repeat([]*Mutation{NewMutation(1)}, len(all)))
			if got := slices.Sorted(slices.Values(b.applied)); !slices.Equal(got, all) {
				return errors.Join(err, fmt.Errorf("applied %v", got))
			}
			return errors.Join(append(errs, err)...)
		},
		"conditional": func(s *Store, _ *crowded) error {
			_, err := s.Retry(context.Background(), func(ctx context.Context) (bool, error) {
				return s.CheckAndMutate(ctx, "t", "r", AllLocks(), nil, nil)
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, s := newCrowded(t)
				b.refuse = refuseFor(2*time.Second, codes.ResourceExhausted, 0)
				started := time.Now()
				if err := do(s, b); err != nil {
					t.Error(err)
				}
				if took := time.Since(started); b.sent > 15 || took > 5*time.Second {
					t.Errorf("%d requests in %v", b.sent, took)
				}
			})
		})
	}
}

// Whoever is told how long to wait sends nothing to that table meanwhile, and everything to others.
func TestRetryInfo(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.ResourceExhausted, codes.Unavailable} {
		synctest.Test(t, func(t *testing.T) {
			b, s := newCrowded(t)
			b.refuse = refuseFor(2*time.Second, code, 2*time.Second)
			started := time.Now()
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					if _, err := s.Retry(t.Context(), func(ctx context.Context) (bool, error) {
						return s.CheckAndMutate(ctx, "t", "r", AllLocks(), nil, nil)
					}); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if took := time.Since(started); b.sent > 21 || took < 2*time.Second || took > 3*time.Second {
				t.Errorf("%v: %d requests of 10 in %v", code, b.sent, took)
			}
			b.refuse = nil
			if _, err := s.ReadRow(t.Context(), "u", "r", AllLocks()); err != nil {
				t.Error(err)
			}
		})
	}
}

// An overload that lasts gets few requests more than it can serve, and what waited is served.
func TestOverloadIsNotFed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newCrowded(t)
		b.capacity = 20
		const requests = 20_000
		var all sync.WaitGroup
		work := make(chan struct{})
		for range 200 {
			all.Go(func() {
				for range work {
					if _, err := s.ReadRow(t.Context(), "t", "r", AllLocks()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		started := time.Now()
		for range requests {
			work <- struct{}{}
		}
		close(work)
		all.Wait()
		took := time.Since(started)
		ideal := requests / 20 * b.takes
		if b.sent > requests*12/10 || took > 3*ideal {
			t.Errorf("%d requests of %d, in %v of %v", b.sent, requests, took, ideal)
		}
		t.Logf("%d requests of %d, in %v of %v", b.sent, requests, took, ideal)
		if got := s.Pressure.Tables(); !slices.Equal(got, []string{"t"}) {
			t.Error(got)
		}
		time.Sleep(3 * calmAfter)
		if got := s.Pressure.Tables(); len(got) > 0 {
			t.Errorf("under pressure long after: %v", got)
		}
	})
}

// Background work waits behind the rest, and what may wait gives way until the pressure ends.
func TestBackgroundGivesWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newCrowded(t)
		b.takes = time.Second
		b.refuse = refuseFor(100*time.Millisecond, codes.ResourceExhausted, 0)
		var order []string
		var mu sync.Mutex
		var all sync.WaitGroup
		read := func(ctx context.Context, name string) {
			all.Go(func() {
				if _, err := s.ReadRow(ctx, "t", "r", AllLocks()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
			})
		}
		read(t.Context(), "first")
		synctest.Wait()
		read(InBackground(t.Context()), "background")
		synctest.Wait()
		read(t.Context(), "second")
		if err := s.Pressure.GiveWay(t.Context()); err != nil {
			t.Error(err)
		}
		if mu.Lock(); len(order) == 0 {
			t.Error("did not give way to the requests that waited")
		}
		mu.Unlock()
		all.Wait()
		if len(order) != 3 || order[2] != "background" {
			t.Errorf("%v", order)
		}
	})
}

// Requests of a slow tablet hold up the others of their table for seconds, however few are allowed.
func TestPressureBesideASlowTablet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newCrowded(t)
		b.refuse = refuseFor(50*time.Millisecond, codes.ResourceExhausted, 0)
		b.takes = 28 * time.Second
		go func() { _, _ = s.ReadRow(t.Context(), "t", "slow", AllLocks()) }()
		synctest.Wait()
		time.Sleep(time.Second)
		b.mu.Lock()
		b.takes = time.Millisecond
		b.mu.Unlock()
		started := time.Now()
		if _, err := s.ReadRow(t.Context(), "t", "r", AllLocks()); err != nil || time.Since(started) > 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(started))
		}
		time.Sleep(time.Minute)
	})
}

// An overload that outlasts the context has a name.
func TestOverloadHasAName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newCrowded(t)
		b.refuse = refuseFor(time.Hour, codes.ResourceExhausted, 0)
		_, err := s.ReadRow(t.Context(), "t", "r", AllLocks())
		if !errors.Is(err, model.ErrOverloaded) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		_, err = s.CheckAndMutate(t.Context(), "t", "r", AllLocks(), nil, nil)
		if !errors.Is(err, model.ErrOverloaded) {
			t.Error(err)
		}
		b.refuse = func() error {
			return status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5 vs. 4)")
		}
		sent := b.sent
		time.Sleep(time.Hour)
		if _, err := s.ReadRow(t.Context(), "t", "r", AllLocks()); errors.Is(err, model.ErrOverloaded) || err == nil || b.sent != sent+1 {
			t.Errorf("a message that is too large: %v", err)
		}
	})
}

// No more mutations are in flight than a table takes from one client.
func TestOutstandingMutations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newCrowded(t)
		m := NewMutation(40_000)
		for range 40_000 {
			m.Erase(layout.DataFamily, "c", 1)
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if err := s.Mutate(t.Context(), "t", "r", m); err != nil {
					t.Error(err)
				}
				if _, err := s.CheckAndMutate(t.Context(), "t", "r", AllLocks(), m, nil); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if b.most != 5 || b.sent != 20 {
			t.Errorf("%d requests of 40,000 mutations at once, %d in all", b.most, b.sent)
		}
	})
}
