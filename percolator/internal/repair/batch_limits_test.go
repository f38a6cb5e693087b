package repair

import (
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/percolator/model"
)

// The changes to one row are cut into mutations that Bigtable takes.
func TestChangesToOneRowAreDivided(t *testing.T) {
	t.Parallel()
	var b batch
	for i := range model.MaxMutationsPerRow + 1 {
		b.of("r").Erase("w", fmt.Sprint(i), 5)
	}
	all := 0
	for _, m := range b.muts[0] {
		if all += len(m.Changes()); len(m.Changes()) > maxChanges {
			t.Errorf("a mutation has %d changes", len(m.Changes()))
		}
	}
	if len(b.rows) != 1 || all != model.MaxMutationsPerRow+1 {
		t.Errorf("%d changes to %q", all, b.rows)
	}
}
