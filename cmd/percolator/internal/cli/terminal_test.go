package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestAsk: only a yes is one.
func TestAsk(t *testing.T) {
	t.Parallel()
	for answer, agreed := range map[string]bool{"y\n": true, "YES\n": true, "n\n": false, "\n": false, "": false, "yes please\n": false} {
		cmd := new(cobra.Command)
		cmd.SetIn(strings.NewReader(answer))
		cmd.SetErr(new(strings.Builder))
		if err := Ask(t.Context(), cmd, false, "Really?"); (err == nil) != agreed {
			t.Errorf("%q: %v", answer, err)
		}
	}
}

func TestPaint(t *testing.T) {
	t.Parallel()
	if got := Painter(true).Paint(Red, "x"); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("%q", got)
	}
	if got := Painter(false).Paint(Red, "x"); got != "x" {
		t.Errorf("%q", got)
	}
	if PainterFor(new(strings.Builder)) {
		t.Error("colours where there is no terminal")
	}
}
