package observers

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// What is seen to stand does so since it was seen first, whatever the oracle's clock says.
func TestStandingSinceTheFirstSighting(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		s, key := newSightings(), cellKey{row: "r"}
		standing := func(ts tso.Timestamp, want time.Duration) {
			t.Helper()
			if got := s.standing(key, ts, time.Minute); got != want {
				t.Fatalf("%v, want %v", got, want)
			}
		}
		standing(10, 0)
		time.Sleep(time.Hour)
		standing(10, time.Hour) // nobody can have erased it and written it again
		standing(11, time.Hour/4)
		time.Sleep(time.Minute)
		standing(12, (time.Hour+time.Minute)/4)
		time.Sleep(2 * time.Minute)
		standing(13, 0) // what was there before may have been run for long ago
	})
}
