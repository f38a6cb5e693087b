package gc

import (
	"github.com/gopercolator/percolator/internal/layout"
	"testing"
)

// TestMarkerAboveTheNewestRunIsNeverCollected: of an acknowledgment everything up to the mark goes
// but the newest lock record. The marker of a run that was rolled back stays instead, and the
// mutation that should erase it is sent in every cycle and erases nothing.
func TestMarkerAboveTheNewestRunIsNeverCollected(t *testing.T) {
	t.Parallel()
	ack := layout.AckColumn("c", "O")
	g := collectible(parseRow(t, "c put@5=3 data@3\nack:O:c mark@20 lck@10=8"), 30)
	erased := func(at int64) bool {
		for _, e := range g.erasures {
			if e.family == layout.WriteFamily && e.column == ack && int64(e.from) <= at && at < int64(e.to) {
				return true
			}
		}
		return false
	}
	if !erased(20) {
		t.Errorf("the marker stays: %s", describe(g))
	}
	if erased(10) {
		t.Errorf("the newest run goes: %s", describe(g))
	}
	if n := versionsOf(g.erasures); n != 1 {
		t.Errorf("%d versions are counted: %s", n, describe(g))
	}
}
