package gc_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A collector reads streams, and rows that they name, at the same time, and resolves locks beside:
// as many requests as it may have, and no more. It still resolves all of them before it publishes
// the watermark.
func TestCollectorResolvesStreamsAtOnce(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCollectorResolvesStreamsAtOnce)
}

func testCollectorResolvesStreamsAtOnce(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	const clients, rows = 24, 3
	writeStreams(t, ctx, env, clients, rows)
	for i := range clients {
		fixture.CrashAfter(t, env, fixture.IsCommit, fmt.Sprintf("dead-%d", i), fmt.Sprintf("dead-%d-a", i), fmt.Sprintf("dead-%d-b", i), fmt.Sprintf("dead-%d-c", i))
	}
	env.Clock.Advance(fixture.PastRetention)

	by := env.NewClient(fixture.ShortRetention)
	var mu sync.Mutex
	var resolving bool
	var started, ended time.Time
	var sent, now, most int
	slowly(env, by, func(r percolatortest.Request) func() {
		mu.Lock()
		defer mu.Unlock()
		if !resolving || r.Table == "percolator_meta" {
			return nil
		}
		sent, now = sent+1, now+1
		most = max(most, now)
		return func() {
			mu.Lock()
			defer mu.Unlock()
			now--
		}
	})
	col, err := fixture.NewCollector(t, by, model.CollectorConfig{Progress: func(col model.Collection) {
		mu.Lock()
		defer mu.Unlock()
		switch resolving = col.Phase == model.CollectionResolve; {
		case resolving && started.IsZero():
			started = time.Now()
		case col.Phase == model.CollectionErase && ended.IsZero():
			ended = time.Now()
			if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != 0 {
				t.Errorf("%d locks are left when it erases", n)
			}
		}
	}}).Collect(ctx)
	fixture.Must(t, err)
	serial := time.Duration(sent) * 5 * time.Millisecond
	t.Logf("%d requests of 5 ms took %v, %.1f times as fast as one by one; at most %d at once", sent, ended.Sub(started), serial.Seconds()/ended.Sub(started).Seconds(), most)
	if most <= 8 || most > 16 {
		t.Errorf("at most %d requests were in flight, want more than 8 and no more than 16", most)
	}
	if col.Locks != 3*clients {
		t.Errorf("resolved %d locks, want %d", col.Locks, 3*clients)
	}
	env.Audit(t, fixture.Collected)
	fixture.WantEntries(t, ctx, env, "in the end", 0)
}
