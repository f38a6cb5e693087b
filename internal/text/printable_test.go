package text_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/text"
)

func TestInvisibleCharactersAreEscaped(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"": "",
		"plain, “ü” → 世界 \ufffd\n\t…": "plain, “ü” → 世界 \ufffd\n\t…",
		`C:\x1b "quoted"`:             `C:\x1b "quoted"`,
		"\x1b[2J\x1b]0;title\a":       `\x1b[2J\x1b]0;title\a`,
		"\x9b31m":                     `\x9b31m`,
		"\u009b31m":                   `\u009b31m`,
		"done\rfailed\b\x7f\x00":      `done\rfailed\b\x7f\x00`,
		"a\u202eb\u2066c\u200fd":      `a\u202eb\u2066c\u200fd`,
		"a\u2028b\u00a0c\ufeff":       `a\u2028b\u00a0c\ufeff`,
		"\xe2\x80":                    `\xe2\x80`,
	} {
		if got := text.Lines(given); got != want {
			t.Errorf("%q became %q, want %q", given, got, want)
		}
	}
	if got, want := text.Line("a\nb\tc"), `a\nb\tc`; got != want {
		t.Errorf("one line is %q, want %q", got, want)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	want := map[string]string{"a": "ü\n\x1b[2J\a\r\u009b1m\x7f \u202e\U000e0001 👍🏽"}
	indented, err := json.MarshalIndent(want, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	escaped := text.JSON(indented)
	if s := string(escaped); text.Lines(s) != s || !strings.Contains(s, `ü\n\u001b[2J\u0007\r\u009b1m\u007f \u202e\udb40\udc01 👍🏽`) {
		t.Errorf("%q", s)
	}
	var got map[string]string
	if err := json.Unmarshal(escaped, &got); err != nil || got["a"] != want["a"] {
		t.Errorf("read as %q, %v", got, err)
	}
}

func TestBeginningEndsWithAWholeCharacter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"aé", 2, "a"}, {"aé", 3, "aé"}, {"a€b", 3, "a"}, {"a€b", 4, "a€"}, {"😀", 3, ""}, {"x😀", 4, "x"},
		{"\xff\x80\x80\x80\x80\x80", 5, "\xff\x80\x80\x80\x80"}, {"", 0, ""},
	} {
		if got := text.Beginning(c.text, c.n); got != c.want {
			t.Errorf("%q to %d: %q, want %q", c.text, c.n, got, c.want)
		}
	}
}
