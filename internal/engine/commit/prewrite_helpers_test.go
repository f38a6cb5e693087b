package commit

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/internal/engine/timestamps"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
)

// meeting is a store whose first request frees all warm goroutines. Each later one waits until so
// many have been under way at the same time, but not for longer than it may.
type meeting struct {
	store.Backend
	warm     *WarmGoroutines
	quorum   int
	together chan struct{} // closed when they have met

	mu                   sync.Mutex
	sent, underWay, most int
}

func (m *meeting) CheckAndMutate(ctx context.Context, _, _ string, _ store.Query, _, _ *store.Mutation) (bool, error) {
	m.mu.Lock()
	if m.sent++; m.sent == 1 {
		m.warm.busy.Store(0)
		m.mu.Unlock()
		return false, nil
	}
	if m.underWay++; m.underWay > m.most {
		if m.most = m.underWay; m.most == m.quorum {
			time.AfterFunc(time.Second, func() { close(m.together) }) // of the bubble: who else is to come is there
		}
	}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.underWay--
		m.mu.Unlock()
	}()
	select {
	case <-m.together:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// ReadRow is of an empty meta row.
func (m *meeting) ReadRow(context.Context, string, string, store.Query) (layout.Row, error) {
	return layout.Row{}, nil
}

// commitOf is a commit of so many rows, to be prewritten.
func commitOf(t *testing.T, backend store.Backend, rows, parallel int) *commit {
	t.Helper()
	s := store.New(context.Background(), backend, &telemetry.Counters{})
	t.Cleanup(s.Stop)
	s.Trace = telemetry.NewSpans(nil)
	sessions, err := locks.NewSessions(new(layertest.Counter))
	if err != nil {
		t.Fatal(err)
	}
	c := &Committer{Store: s, Config: store.Settings{LockTTL: 10 * time.Second, Retention: time.Hour, MaxParallelism: parallel},
		Meta: &meta.Watcher{Store: s, Clock: &timestamps.Source{Store: s}}, Locks: &locks.Resolver{Sessions: sessions}}
	cm := &commit{c: c, startTS: firstTS, started: time.Now(), inFlight: semaphore.NewWeighted(prewriteBytes), outcome: map[*rowWrites]prewriteOutcome{}}
	for i := range rows {
		row := fmt.Sprint(i)
		w := &Write{Kind: layout.KindPut, Cell: model.Cell{Table: "t", Row: row, Column: "c"}, Value: []byte("v")}
		cm.rows = append(cm.rows, &rowWrites{table: "t", row: row, writes: []*Write{w}})
	}
	cm.primary = cm.rows[0].writes[0]
	return cm
}

// A commit that begins while others have all warm goroutines does not prewrite one row after the
// other for its whole duration: it gets help when they are free again.
func TestPrewritesGetHelpLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rows, quorum = 20, 8
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // of the bubble
		defer cancel()
		warm := NewWarmGoroutines(ctx)
		warm.busy.Store(warm.most)
		m := &meeting{warm: warm, quorum: quorum, together: make(chan struct{})}
		cm := commitOf(t, m, rows, quorum)
		cm.c.Warm = warm
		if err := cm.prewrite(ctx); err != nil {
			t.Errorf("at most %d requests were under way at once, of %d that were sent: %v", m.most, m.sent, err)
		}
		if m.most > quorum {
			t.Errorf("%d requests were under way at once, more than Config.MaxParallelism", m.most)
		}
		if m.sent != rows || len(cm.outcome) != rows {
			t.Errorf("%d requests, and %d outcomes, for %d rows", m.sent, len(cm.outcome), rows)
		}
		cancel() // ends the goroutines
		synctest.Wait()
		if n := warm.busy.Load(); n != 0 {
			t.Errorf("%d slots are taken after the commit", n)
		}
	})
}
