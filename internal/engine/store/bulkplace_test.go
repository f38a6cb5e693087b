package store

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
)

// A tablet does not answer, and its share of the queue is full. Who has committed there waits for
// placeWait, whatever the rest is; the rest waits in the background, and Flush for that. What is
// too much for the background is answered at once.
func TestOfferDoesNotWaitForAStalledTablet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend, w := newTabletBackend(t, "b", "c")
		backend.slow = 'a'
		w.store.Tablets.learn("t", w.store.Tablets.of("t"))
		var applied, refused, closed atomic.Int64
		offer := func(tablets string, rows int) time.Duration {
			muts := rowMutations(tablets, rows, 1, 1)
			for i := range muts {
				muts[i].Done = func(err error) {
					switch {
					case err == nil:
						applied.Add(1)
					case errors.Is(err, ErrNoPlace):
						refused.Add(1)
					case errors.Is(err, model.ErrClosed):
						closed.Add(1)
					default:
						t.Errorf("%v", err)
					}
				}
			}
			began := time.Now()
			o := w.Offer(t.Context())
			o.Add(muts[:len(muts)/2]...)
			o.Add(muts[len(muts)/2:]...)
			return time.Since(began)
		}
		if took := offer("a", tabletMost); took != 0 {
			t.Errorf("it waited %v for places that are free", took)
		}
		if took, want := offer("ab", 500), placeWait+500*placeRow; took != want {
			t.Errorf("beside a full share it waited %v, want %v", took, want)
		}
		synctest.Wait()
		if n := applied.Load(); n != 500 {
			t.Errorf("%d rows of the other tablet are applied, want 500", n)
		}
		if took := offer("a", postponedMost); took != placeWait+postponedMost/2*placeRow || refused.Load() == 0 || refused.Load() > postponedMost {
			t.Errorf("it waited %v, and %d rows were refused", took, refused.Load())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Flush(ctx); err == nil {
			t.Error("Flush did not wait for what is in the background")
		}
		close(backend.free)
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := applied.Load() + refused.Load(); n != tabletMost+1000+postponedMost || closed.Load() > 0 {
			t.Errorf("%d rows are answered, %d after the end", n, closed.Load())
		}
		synctest.Wait() // the last answer comes before its place in the background is free
		if !w.postponed.TryAcquire(postponedMost) {
			t.Error("rows are left in the background")
		}
	})
}

// A tablet frees a place now and then. Who has committed there does not wait for each.
func TestOfferDoesNotWaitForATrickle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, w := newTabletBackend(t)
		muts := rowMutations("a", 1000, 1, 1)
		for i := range muts {
			muts[i].Done = func(error) {}
		}
		tablet := w.tabletOf(muts[0])
		_ = tablet.rows.Acquire(t.Context(), tabletMost)
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-time.After(placeWait / 2):
					tablet.rows.Release(1)
				case <-stop:
					return
				}
			}
		}()
		began := time.Now()
		w.Offer(t.Context()).Add(muts...)
		if took, most := time.Since(began), placeWait+1000*placeRow; took > most {
			t.Errorf("it waited %v, at most %v is allowed", took, most)
		}
		close(stop)
	})
}

// The end of the client answers what waits in the background.
func TestCloseAnswersWhatIsPostponed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend, w := newTabletBackend(t, "b")
		backend.slow = 'a'
		w.store.Tablets.learn("t", w.store.Tablets.of("t"))
		var answered atomic.Int64
		muts := rowMutations("a", tabletMost+100, 1, 1)
		for i := range muts {
			muts[i].Done = func(err error) {
				answered.Add(1)
				if err == nil {
					t.Error("applied by a tablet that does not answer")
				}
			}
		}
		w.Offer(t.Context()).Add(muts...)
		w.store.Stop()
		w.Close()
		if n := answered.Load(); n != int64(len(muts)) {
			t.Errorf("%d of %d rows are answered", n, len(muts))
		}
	})
}
