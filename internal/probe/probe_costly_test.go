package probe

import (
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/health"
)

// TestWhatCostsMore: what a caller has to ask for, within what is announced for it.
func TestWhatCostsMore(t *testing.T) {
	if testing.Short() {
		t.Skip("it sends 200 MiB")
	}
	s := newSite(t)
	s.start(t)
	s.effort = &lineEffort
	s.Lines, s.LargeValues, s.ProgressBytes, s.ProgressWithin = []string{"sizes", "progress"}, true, 5<<20, 20*time.Second
	levels, r := s.levels(t)
	if saw := r.Results[0].Findings[0].Saw; levels["sizes"] != health.OK || !strings.Contains(saw, "104857600 bytes of a value (104857601: InvalidArgument)") {
		t.Errorf("sizes: %+v", r.Results[0])
	}
	if saw := r.Results[1].Findings[0].Saw; levels["progress"] != health.NotChecked || !strings.Contains(saw, "a read of 5242880 bytes that finds nothing ended") {
		t.Errorf("progress: %+v", r.Results[1])
	}
	most := Announce(s.Config)
	for i, l := range r.Results {
		at := most.Lines[i+1].Sent
		t.Logf("%s %+v of %+v", l.Name, l.Sent, at)
		if l.Sent.Requests > at.Requests || l.Sent.Bytes > at.Bytes {
			t.Errorf("%s sent %+v of %+v", l.Name, l.Sent, at)
		}
	}
	if r.Results[1].Sent.Bytes < 5<<20 {
		t.Errorf("it has written %d bytes", r.Results[1].Sent.Bytes)
	}
}
