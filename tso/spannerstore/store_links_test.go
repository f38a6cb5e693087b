package spannerstore_test

import (
	"os/exec"
	"strings"
	"testing"
)

// Spanner's client library is large, and only servers need it.
func TestClientsLinkNoSpanner(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/gopercolator/percolator/percolator")
	deps, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(deps), "cloud.google.com/go/spanner") {
		t.Error("package percolator links Spanner")
	}
}
