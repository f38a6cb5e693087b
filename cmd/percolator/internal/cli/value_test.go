package cli

import (
	"strings"
	"testing"
)

func TestShownIsUnderstood(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"a", "", "a b", "\x00", "\xff", `"`, `"a"`, "ä", "\u202e", strings.Repeat("x", 4096)} {
		if back, err := FromShown(Shown(key)); err != nil || back != key {
			t.Errorf("%q is shown as %s and understood as %q, %v", key, Shown(key), back, err)
		}
	}
	if _, err := FromShown(`"a`); err == nil {
		t.Error("an open quote is understood")
	}
}

// TestShownValues: two different values never look the same.
func TestShownValues(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"a b": "a b", "": `""`, `"`: `"\""`, " a": `" a"`, "a\n": `"a\n"`, "\xff": `"\xff"`, "ä€": "ä€", `{"a": 1}`: `{"a": 1}`, "\u202e": `"\u202e"`, "\ufffd": `"` + "\ufffd" + `"`,
	} {
		if got := shownValue([]byte(value)); got != want {
			t.Errorf("%q is shown as %s, want %s", value, got, want)
		}
	}
}
