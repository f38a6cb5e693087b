package settle_test

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// An adopter that has appended an entry again moves the low position past it, and lists its row if
// the entry has locks (J12): the next adopter, which moves the position further, lists it too. An
// entry that only a notification keeps is not listed.
func TestAdoptersListWhatHasLocks(t *testing.T) {
	t.Parallel()
	for name, locked := range map[string]bool{"locked": true, "notified": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) { testAdoptersList(t, locked) })
		})
	}
}

func testAdoptersList(t *testing.T, locked bool) {
	w := newWorld(t)
	dying, session := w.client()
	w.die(dying, session, "r")
	before := w.streamsOf(session)
	for range 2 {
		c, a, _ := w.adopter()
		if locked {
			w.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
				if r.Row == "r" && r.Method == percolatortest.CheckAndMutateRow {
					return percolatortest.LoseRequest
				}
				return percolatortest.Pass
			})
		}
		w.ctx = fixture.Context(t)
		for until := time.Now().Add(3 * time.Minute); time.Now().Before(until); time.Sleep(time.Second) {
			_ = a.RunOnce(w.ctx) // it cannot resolve the lock
		}
	}
	w.ctx = fixture.Context(t)
	listed := 0
	for id, st := range w.streamsOf(session) {
		if st.Low <= before[id].Low {
			t.Errorf("low is %d, and was %d", st.Low, before[id].Low)
		}
		for seq := uint64(1); seq < st.Low; seq++ {
			if st.IsOpen(seq) {
				listed++
			}
		}
	}
	if (listed == 1) != locked {
		t.Errorf("%d rows are open below low positions", listed)
	}
}

func (w *world) streamsOf(session string) map[journal.StreamID]journal.Stream {
	w.Helper()
	streams, err := journal.Streams(w.ctx, w.Client.Engine().Store)
	fixture.Must(w, err)
	of := map[journal.StreamID]journal.Stream{}
	for _, st := range streams {
		if st.Session == session {
			of[st.ID] = st
		}
	}
	return of
}
