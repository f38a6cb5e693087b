package observers

import (
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/membership"
)

// TestRegisteredColumns: a worker registers the columns it takes as bytes, and none rather than
// some.
func TestRegisteredColumns(t *testing.T) {
	t.Parallel()
	of := func(names ...string) membership.WorkerInfo {
		c := &coverage{taken: map[Column]*column{}}
		for _, n := range names {
			c.taken[Column{"docs", n}] = &column{}
		}
		return membership.WorkerInfo{Takes: c.registeredColumns()}
	}
	w := of("in", "\xff")
	for column, want := range map[string]bool{"in": true, "\xff": true, "out": false} {
		if takes, known := w.TakesColumn("docs", column); takes != want || !known {
			t.Errorf("column %q: takes %v, known %v", column, takes, known)
		}
	}
	if takes, _ := w.TakesColumn("other", "in"); takes {
		t.Error("it takes a column of another table")
	}
	if takes, known := of("in", strings.Repeat("x", registeredBytes)).TakesColumn("docs", "in"); takes || known {
		t.Error("what does not fit is registered in part")
	}
}
