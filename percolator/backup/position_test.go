package backup

import (
	"encoding/json"
	"testing"

	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// While one chunk is slow, those after it go on; what is stored of them is bounded, and never says
// that one is done which is not.
func TestPositionIsBounded(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testPositionIsBounded)
}

func testPositionIsBounded(t *testing.T) {
	var r positionRecord
	for i := 1; i < 10_000; i++ { // not 0
		r.finish(i)
	}
	b, err := json.Marshal(r.bounded())
	if err != nil || len(b) > admin.MaxLoadPosition {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if stored := r.bounded(); stored.Next != 0 || len(stored.Also) != maxAlso || stored.Also[0] != 1 || stored.Also[maxAlso-1] != maxAlso {
		t.Errorf("next %d, beside it %d from %d to %d", stored.Next, len(stored.Also), stored.Also[0], stored.Also[len(stored.Also)-1])
	}
	r.finish(0)
	if r.Next != 10_000 || len(r.Also) != 0 {
		t.Errorf("when it is done: next %d, beside it %d", r.Next, len(r.Also))
	}
}
