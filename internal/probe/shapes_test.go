package probe

import (
	"testing"

	"github.com/gopercolator/percolator/internal/engine/layout"
)

// TestMoreThanAskedForDiffers: a limit of cells that the store exceeds is found.
func TestMoreThanAskedForDiffers(t *testing.T) {
	t.Parallel()
	all := []layout.Item{{Family: "f", Column: "a"}, {Family: "f", Column: "b"}, {Family: "f", Column: "c"}}
	for n, right := range map[int]bool{0: false, 1: false, 2: true, 3: false} {
		if differs := difference(all[:n], all, 2); (differs == "") != right {
			t.Errorf("%d cells of at most 2: %q", n, differs)
		}
	}
}
