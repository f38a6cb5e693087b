package combinequeue_test

import (
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Each bucket is folded by one worker, whichever client adds to it.
func TestBucketsHaveOneWorker(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	e := newEnv(t, config())
	hinting := percolatortest.Configure(func(cfg *percolator.Config) { cfg.Oracle = e.Oracle })
	client, other := e.NewClient(hinting), e.NewClient(hinting)
	r := observers.NewRegistry()
	e.queue.ObserveBatch(r, e.queue.Into(e.total))
	first, _ := e.startWith(client, r, observers.Config{DisableCollection: true})
	second, _ := e.startWith(other, r, observers.Config{DisableCollection: true})
	rounds := 0
	attempts := func() (of [2]map[string]int64) {
		for _, o := range e.queue.Observers() {
			for i, w := range []interface{ Stats() observers.Stats }{first, second} {
				if of[i] == nil {
					of[i] = map[string]int64{}
				}
				of[i][o] = w.Stats().Observers[o].Attempts
			}
		}
		return of
	}
	e.until("each bucket is folded by one worker, and both fold", func() bool {
		before := attempts()
		rounds++
		for i := range 20 {
			key := fmt.Sprint("key", i)
			e.add(client, key)
			e.add(other, key)
		}
		e.idle(first)
		after, folded := attempts(), [2]int{}
		for _, o := range e.queue.Observers() {
			if after[0][o] > before[0][o] && after[1][o] > before[1][o] {
				return false
			}
			for i := range folded {
				folded[i] += int(after[i][o] - before[i][o])
			}
		}
		return folded[0] > 0 && folded[1] > 0
	})
	for i := range 20 {
		if total, pending := e.read(fmt.Sprint("key", i)); total != int64(2*rounds) || pending != 0 {
			t.Errorf("key%d: %d and %d pending, want %d", i, total, pending, 2*rounds)
		}
	}
}
