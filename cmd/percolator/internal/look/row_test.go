package look

import (
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
)

func TestRowText(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{-1: "? bytes", 0: "0 bytes", 1: "1 byte", 9999: "9999 bytes", 12_345: "12.3 kB", 104_857_600: "104.9 MB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{-time.Second: "0s", 7 * time.Second: "7s", 192 * time.Second: "3m12s", 5*time.Hour + time.Minute: "5h1m", 49 * time.Hour: "2d1h"} {
		if got := text.Age(d); got != want {
			t.Errorf("briefAge(%v) = %q, want %q", d, got, want)
		}
	}
	for in, want := range map[string]string{"text": "text", "": `""`, "\x00\xff": "00 ff", "a\nb": "61 0a 62"} {
		if got := valueLine(percolator.TypeBytes, []byte(in), int64(len(in))); got != want {
			t.Errorf("valueLine(percolator.TypeBytes, %q) = %q, want %q", in, got, want)
		}
	}
	if got := valueLine(percolator.TypeBytes, []byte("begin"), 100); got != "begin…" {
		t.Errorf("a cut value is shown as %q", got)
	}
	if got := cli.Shortened(strings.Repeat("a", 50)+strings.Repeat("z", 50), 20); len([]rune(got)) != 20 || !strings.HasPrefix(got, "aaa") || !strings.HasSuffix(got, "zzz") {
		t.Errorf("shortened to %q", got)
	}
}
