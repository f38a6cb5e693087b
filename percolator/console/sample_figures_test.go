package console

import (
	"testing"
	"time"
)

// The number above a chart is the sum of its lines where they add up, and is said to be one line's
// where they do not.
func TestHeadlinesAreSumsWhereTheyAddUp(t *testing.T) {
	t.Parallel()
	s := unknown(1, time.Now())
	s.Values[committed], s.Values[conflicts] = 100, 20 // aborts are not known
	s.Values[reads], s.Values[conditional], s.Values[mutations] = 1, 2, 3
	s.Values[commitMedian], s.Values[commitTail] = 0.002, 0.02
	s.Values[lockWaits], s.Values[lockWaitTime] = 5, 2
	s.Values[parkedCells], s.Values[expiredLocks] = 3, 4
	p := &page{state: &state{}, Samples: []sample{s}}
	want := map[string]string{
		"transactions": "120/s attempts", "requests": "6/s requests", "latency": "2 ms commit, median", "lockwaits": "5/s waits", "stuck": "7 cells", "runs": "– runs that ended",
	}
	for _, f := range p.Figures() {
		if text := want[f.ID]; text != "" && f.Key+" "+f.Of != text {
			t.Errorf("%s: %s %s, want %s", f.ID, f.Key, f.Of, text)
		}
		if f.ID == "lockwaits" && f.Lines[1].Now != "2" {
			t.Errorf("%s readers wait", f.Lines[1].Now)
		}
	}
}
