package text

import (
	"strings"
	"testing"
)

func TestNearestAllowsFewMistakes(t *testing.T) {
	t.Parallel()
	names := []string{"accounts", "documents", "domains", "ab"}
	for given, want := range map[string]string{
		"acounts": "accounts", "Documents": "documents", "domain": "domains", "documents": "documents",
		"ac": "ab", "xy": "", "completely": "", "": "", strings.Repeat("a", longest+1): "",
	} {
		if got := Nearest(given, names...); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
	if got := DidYouMean("acounts", names...); got != `; did you mean "accounts"?` {
		t.Errorf("%q", got)
	}
	if got := DidYouMean("acounts"); got != "" {
		t.Errorf("without names: %q", got)
	}
}
