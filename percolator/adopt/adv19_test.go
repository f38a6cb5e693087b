package adopt_test

import (
	"maps"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
)

// A copy as of a time has the cells of that very time: it leaves out only newer ones.
func TestCopyAtTheTimeOfACell(t *testing.T) { inBubble(t, testCopyAtTheTimeOfACell) }

func testCopyAtTheTimeOfACell(t *testing.T) {
	w := newWorld(t)
	at := time.Now().Truncate(time.Second)
	w.put("a", at.Add(-time.Hour), "f", "v", "old")
	w.put("a", at, "f", "v", "new")
	w.put("b", at, "f", "v", "only")
	w.put("c", at.Add(time.Millisecond), "f", "v", "newer")
	_, err := w.bulk(at, nil)
	fixture.Must(t, err)
	if want := map[string]string{"a/value": "new", "b/value": "only"}; !maps.Equal(w.contents(), want) {
		t.Errorf("%q, want %q", w.contents(), want)
	}
}
