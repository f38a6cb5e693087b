package store

import (
	"regexp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// awkwardColumns would be other columns, or errors, in a regular expression that is not escaped.
var awkwardColumns = []string{"a", "b", "ab", "a.b", "axb", "a|b", ".*", ".+", "[a-b]", "^a$", `\`, `\x61`, `a\`, "\n", "a\nb", "\xff", "\xc3\x28", "ä", "\u65e5\u672c",
	"(?i)a", "A", "a{2}", "aa", "$", " ", ":", "a:b", "data:a", "\x01", "\x7f", "\x80", "Z9", "\\C", "\\Qa\\E"}

// matcher matches as Bigtable does: bytes, which are one character each, and the whole name.
type matcher struct{ re *regexp.Regexp }

func newMatcher(t interface{ Fatalf(string, ...any) }, p string) matcher {
	re, err := regexp.Compile("^(?:" + characters(p) + ")$")
	if err != nil {
		t.Fatalf("pattern %q: %v", p, err)
	}
	return matcher{re}
}

func (m matcher) MatchString(name string) bool { return m.re.MatchString(characters(name)) }

// characters makes a character of each byte.
func characters(b string) string {
	rs := make([]rune, len(b))
	for i := range len(b) {
		rs[i] = rune(b[i])
	}
	return string(rs)
}

// anyBytes are names as users may choose them: any bytes, often awkward ones.
func anyBytes(least, most int) *rapid.Generator[string] {
	awkward := rapid.SampledFrom([]byte{0, 1, 0xff, 0xfe, '.', '*', '|', '\\', '\n', '"', ':', 'a', 'b', 0xc3, 0xa4})
	return rapid.Map(rapid.SliceOfN(rapid.OneOf(awkward, rapid.Byte()), least, most), func(b []byte) string { return string(b) })
}

func TestPatternMatchesExactlyTheNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.SampledFrom(awkwardColumns), anyBytes(1, 6))
		names := rapid.SliceOfN(name, 1, 5).Draw(t, "names")
		p := pattern(names)
		re := newMatcher(t, p)
		for _, n := range names {
			if !re.MatchString(n) {
				t.Errorf("%q does not match %q", p, n)
			}
		}
		if other := name.Draw(t, "other"); re.MatchString(other) != slices.Contains(names, other) {
			t.Errorf("%q matches %q, which is none of %q", p, other, names)
		}
		bound := 0
		for _, n := range names {
			bound += PatternBytes(n)
		}
		if len(p) > bound {
			t.Errorf("the pattern of %q has %d bytes, more than the bound %d", names, len(p), bound)
		}
	})
}

func FuzzPattern(f *testing.F) {
	for i, c := range awkwardColumns {
		f.Add(c, awkwardColumns[(i+1)%len(awkwardColumns)], awkwardColumns[(i+7)%len(awkwardColumns)])
	}
	f.Fuzz(func(t *testing.T, a, b, other string) {
		re := newMatcher(t, pattern([]string{a, b}))
		if !re.MatchString(a) || !re.MatchString(b) || re.MatchString(other) != (other == a || other == b) {
			t.Errorf("the pattern of %q and %q: %v %v, and %v for %q", a, b, re.MatchString(a), re.MatchString(b), re.MatchString(other), other)
		}
	})
}
