package loader

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"golang.org/x/sync/semaphore"
)

// Whatever the order in which batches end, the position is the end of the longest beginning without
// a gap.
func TestPositionHasNoGapBeforeIt(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		start := random.Int64N(100)
		o := newOrder(record{Items: start})
		type batch struct{ first, items int64 }
		var batches []batch
		end := start
		for range 1 + random.IntN(20) {
			b := batch{end, 1 + random.Int64N(5)}
			batches, end = append(batches, b), end+b.items
		}
		done := map[int64]int64{}
		passed := int64(0)
		for _, i := range random.Perm(len(batches)) {
			b := batches[i]
			passed += o.finish(b.first, finished{items: b.items, failed: 1, token: []byte{byte(b.first + b.items)}})
			done[b.first] = b.items
			want, n := start, int64(0)
			for done[want] > 0 {
				want += done[want]
				n++
			}
			at, failed := o.position(), o.record().Failed
			if at.Items != want || passed != want-start || failed != n || n > 0 && at.Token[0] != byte(want) {
				t.Fatalf("seed %d: position %+v with %d failed and %d passed, want %d with %d", seed, at, failed, passed, want, n)
			}
		}
		if at := o.position(); at.Items != end || len(o.finished) != 0 {
			t.Fatalf("seed %d: position %d at the end, %d batches remembered", seed, at.Items, len(o.finished))
		}
	}
}

// Only so many items are taken while the first one has not been dealt with.
func TestNotTooFarAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg, err := Config{Concurrency: 1, ItemsPerTransaction: 1}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		l := &load[int]{cfg: cfg, reading: t.Context(), queue: make(chan entry[int], 100), taking: semaphore.NewWeighted(1), ahead: semaphore.NewWeighted(aheadFactor), order: newOrder(record{})}
		for i := range 100 {
			l.queue <- entry[int]{index: int64(i)}
		}
		taken := 0
		go func() {
			for {
				if _, ok := l.take(); !ok {
					return
				}
				taken++
			}
		}()
		synctest.Wait()
		if taken != aheadFactor {
			t.Errorf("%d items taken, want %d", taken, aheadFactor)
		}
		for i := range int64(3) { // the third, the second, the first
			l.ahead.Release(l.order.finish(2-i, finished{items: 1}))
			synctest.Wait()
			if want := aheadFactor + int(i)/2*3; taken != want {
				t.Errorf("%d items taken, want %d", taken, want)
			}
		}
	})
}
