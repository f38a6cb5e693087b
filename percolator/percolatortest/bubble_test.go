package percolatortest_test

import (
	"context"
	"net"
	"os"
	"testing"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestBubbleIgnoresEmulatorHost: a terminal in which percolator dev's exports were pasted runs the
// tests of bubbles, too. Without the care that Bubble takes, this test hangs.
func TestBubbleIgnoresEmulatorHost(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("BIGTABLE_EMULATOR_HOST", l.Addr().String())
	percolatortest.Bubble(t, func(t *testing.T) {
		env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}})
		if _, err := env.Client.Update(t.Context(), func(_ context.Context, tx *percolator.Txn) error {
			return tx.Set(percolator.Cell{Table: "t", Row: "r", Column: "c"}, nil)
		}); err != nil {
			t.Error(err)
		}
	})
	if got := os.Getenv("BIGTABLE_EMULATOR_HOST"); got != l.Addr().String() {
		t.Errorf("the environment names %q afterwards", got)
	}
}
