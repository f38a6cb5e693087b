package gc

import (
	"testing"

	"github.com/gopercolator/percolator/internal/engine/layout"
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

// A lock without an entry (J8) keeps an acknowledgment, or the deletion that it acknowledges, for a
// while. The row has to be looked at again afterwards, which no other entry may lead to.
func TestLockKeepsGarbageOfAnotherColumn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"c del@5=3 lock@40\nack:O:c lck@10=8":   1,
		"c del@5=3\nack:O:c lck@10=8 lock@40":   1,
		"c del@5=3\nack:O:c lck@10=8":           0,
		"c del@5=3 lock@40":                     0,
		"c del@5=3\nack:O:c lck@10=8 lck@50=40": 0, // by the entry of the later run
	} {
		if g := collectible(parseRow(t, text), 30); g.postponed != want {
			t.Errorf("%q: %s", text, describe(g))
		}
	}
}
