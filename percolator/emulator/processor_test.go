package emulator

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestLatencyGrowsWithTheQueue: requests are served one after another, each for its rows; others'
// work delays them, and those that come when nothing waits take no longer than their own.
func TestLatencyGrowsWithTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &Processor{Request: 10 * time.Millisecond, Row: time.Millisecond}
		_, tbl := inMemory(t, OnProcessor(p))
		took := func(do func() error) time.Duration {
			t.Helper()
			began := time.Now()
			if err := do(); err != nil {
				t.Error(err)
			}
			return time.Since(began)
		}
		one := func() error { _, err := tbl.ReadRow(t.Context(), "r"); return err }
		scan := func() error {
			return tbl.ReadRows(t.Context(), bigtable.InfiniteRange(""), func(bigtable.Row) bool { return true })
		}
		bulk := func() error {
			_, err := tbl.ApplyBulk(t.Context(), []string{"a", "b", "c"}, []*bigtable.Mutation{setOne(), setOne(), setOne()})
			return err
		}
		alone := func(want time.Duration, do func() error) {
			t.Helper()
			if d := took(do); d != want {
				t.Errorf("alone: %v, want %v", d, want)
			}
		}
		alone(11*time.Millisecond, one)
		alone(10*time.Millisecond, scan)
		alone(13*time.Millisecond, bulk)
		alone(11*time.Millisecond, func() error { return tbl.Apply(t.Context(), "r", setOne()) })
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				if d := took(one); d != time.Duration(i+1)*11*time.Millisecond {
					t.Errorf("request %d: %v", i, d)
				}
			})
			synctest.Wait() // it has arrived
		}
		if d := p.Backlog(); d != 1100*time.Millisecond {
			t.Errorf("a backlog of %v", d)
		}
		all.Wait()
		p.Occupy(time.Second)
		if d := took(one); d != time.Second+11*time.Millisecond {
			t.Errorf("behind others' work: %v", d)
		}
		alone(11*time.Millisecond, one)
	})
}

// TestQueueHasAnEnd: beyond it requests are refused and take nothing; one whose caller leaves takes
// its time.
func TestQueueHasAnEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &Processor{Request: 10 * time.Millisecond, Longest: time.Second}
		_, tbl := inMemory(t, OnProcessor(p))
		p.Occupy(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		if err := tbl.Apply(ctx, "r", setOne()); status.Code(err) != codes.DeadlineExceeded { // at the limit
			t.Errorf("a caller that leaves: %v", err)
		}
		synctest.Wait()
		if d := p.Backlog(); d != time.Second+5*time.Millisecond {
			t.Errorf("a backlog of %v", d)
		}
		for range 3 {
			if err := tbl.Apply(t.Context(), "r", setOne()); status.Code(err) != codes.ResourceExhausted {
				t.Errorf("beyond the limit: %v", err)
			}
		}
		if d := p.Backlog(); d != time.Second+5*time.Millisecond {
			t.Errorf("after those that were refused: a backlog of %v", d)
		}
	})
}
