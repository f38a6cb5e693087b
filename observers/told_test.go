package observers

import (
	"testing"
	"testing/synctest"
	"time"
)

// Before a run for a weak notification a worker looks whether another has dealt with it, which is a request. What its own client has told
// it needs none, also when it waited for further notifications to join: who finds it in the table meanwhile waits from then on, and
// looks. After a failure everybody may have been there.
func TestWhatTheOwnClientToldNeedsNoSecondLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{}, options{collapse: time.Minute})
		f.offer("told", 10, dispatched, accepted)
		time.Sleep(time.Second)
		f.offer("found", 11, found, accepted)
		f.offer("told", 12, found, joined)
		time.Sleep(time.Minute - time.Second)
		synctest.Wait()
		tn := f.take("told", "o0")
		if tn.stale {
			t.Error("what the own client has told is looked at before its run")
		}
		f.q.finish(tn, outcome{err: errTest})
		time.Sleep(time.Second)
		synctest.Wait()
		for range 2 {
			again, ok := f.q.take()
			if !ok || !again.stale {
				t.Errorf("after a failure, or when a scan has found it, %q is not looked at: %+v", again.entry.row, again)
			}
		}
	})
}
