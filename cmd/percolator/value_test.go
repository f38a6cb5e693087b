package main

import "testing"

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
