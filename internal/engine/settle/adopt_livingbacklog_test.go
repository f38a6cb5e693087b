package settle_test

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
)

// An adopter remembers what owners that live have left to settle, while no hints reach it and for
// the look with which it begins. However much that is, it goes on to adopt the streams of those
// that died.
func TestABacklogOfTheLivingKeepsNoStreamOfTheDead(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for name, deaf := range map[string]bool{"without hints": true, "at its start": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testBacklogOfTheLiving(t, deaf)
		})
	}
}

func testBacklogOfTheLiving(t *testing.T, deaf bool) {
	w := newWorld(t)
	living, session := w.client()
	fixture.Plant(t, w.ctx, w.Env, "t", "busy", "notify", "poke", 1000, "") // nobody deals with it
	w.appendEntries(living, &model.JournalEntry{Rows: []model.JournalName{{Table: "t", Key: "busy", Weak: true}}})
	dying, lost := w.client()
	_, a, found := w.adopter()
	if a.Watch.Store(deaf); deaf {
		w.turns(a, "the stream of the living is read", func() bool { return found.of("busy") > 0 })
	}
	a.Remember(w.ctx, session) // 100,000 rows like it
	w.die(dying, lost, "lost")
	started := time.Now()
	for time.Since(started) < 10*time.Second && found.of("lost") == 0 {
		fixture.Must(t, a.RunOnce(w.ctx))
		time.Sleep(50 * time.Millisecond)
	}
	if found.of("lost") == 0 {
		t.Errorf("%v after its session ended a client's stream is not read, because of what is remembered of one that lives", time.Since(started))
	}
}
