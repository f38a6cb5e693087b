package timestamps_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/internal/engine/timestamps"
	"github.com/gopercolator/percolator/internal/testing/layertest"
)

// TestNewestOfASuspendedMachine: the newest timestamp is as old as the wall clock shows, where the
// monotonic clock stood still, and as the monotonic clock shows where the wall clock was set back.
func TestNewestOfASuspendedMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.New(t.Context(), nil, &telemetry.Counters{})
		s.Trace = telemetry.NewSpans(nil)
		var shift time.Duration
		source := &timestamps.Source{Store: s, Oracle: new(layertest.Counter), Wall: func() time.Time { return time.Now().Add(shift) }}
		ts, err := source.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for _, c := range []struct {
			shift, within time.Duration
			want          bool
		}{
			{0, time.Second, true}, {0, time.Second - 1, false},
			{time.Hour, time.Hour, false}, {time.Hour, time.Hour + time.Second, true},
			{-time.Hour, time.Second, true}, {-time.Hour, time.Second - 1, false},
		} {
			shift = c.shift
			if got, ok := source.NewestWithin(c.within); ok != c.want || got != ts {
				t.Errorf("the wall clock shifted by %v: %d, %t within %v", c.shift, got, ok, c.within)
			}
		}
	})
}
