package simulate

import "testing"

// TestEditsFitTheLibrary: each edit finds its place in the library of the Go version in use.
func TestEditsFitTheLibrary(t *testing.T) {
	if _, err := new(flags).library(t.Context(), t.TempDir()); err != nil {
		t.Error(err)
	}
}
