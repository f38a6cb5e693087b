package page

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestTermsAreNormalized(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                                       nil,
		"The Keeper's lamp, and the keeper":      {"keeper", "lamp", "keeper"},
		"a I x 7 42":                             {"42"},
		"HTTP/1.1 utf-8":                         {"http", "utf"},
		"ÉTÉ e\u0301te\u0301 été":                {"été", "été", "été"},
		"ＦＵＬＬ ﬁne ①② ²³":                         {"full", "fine", "12", "23"},
		"light\u00adhouse":                       {"lighthouse"},
		"Straße İstanbul":                        {"straße", "istanbul"},
		"हिन्दी":                                 {"हिन्दी"},
		"灯台守 ガス灯":                                {"灯台", "台守", "ガス", "ス灯"},
		"東 x":                                    nil,
		"no5灯台":                                  {"no5", "灯台"},
		strings.Repeat("x", 32):                  {strings.Repeat("x", 32)},
		strings.Repeat("x", 33) + " yy":          {"yy"},
		"snake_case-and.dots":                    {"snake", "case", "dots"},
		"\u0301\u0301lone marks\xff\xfe invalid": {"lone", "marks", "invalid"},
	} {
		if got := Terms(text); !slices.Equal(got, want) {
			t.Errorf("Terms(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestEachTermStops(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"one two three", "灯台守灯台守"} {
		calls := 0
		eachTerm(text)(func(string) bool { calls++; return calls < 2 })
		if calls != 2 {
			t.Errorf("%q: %d calls, want 2", text, calls)
		}
	}
}

func TestCountTermsIsBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range MaxTerms + 10 {
		fmt.Fprintf(&b, "term%d ", i)
	}
	b.WriteString("term0")
	counts, complete := countTerms("term0 title", b.String())
	if complete || len(counts) != MaxTerms {
		t.Errorf("%d terms, complete: %v", len(counts), complete)
	}
	if counts["term0"] != 3 || counts["title"] != 1 || counts[fmt.Sprintf("term%d", MaxTerms)] != 0 {
		t.Errorf("counts: %d, %d, %d", counts["term0"], counts["title"], counts[fmt.Sprintf("term%d", MaxTerms)])
	}
}

func FuzzTerms(f *testing.F) {
	for _, text := range []string{"The light", "İ", "灯台守", "ﬁ\u0301", "\u212a", "a\u00adb", "\u1e9e", "ͅ", "한국"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		terms := Terms(text)
		again := Terms(strings.Join(terms, " "))
		if !slices.Equal(terms, again) {
			t.Errorf("the terms of %q are %q, and the terms of those %q", text, terms, again)
		}
		for _, term := range terms {
			if n := len([]rune(term)); n < minTerm || n > maxTerm {
				t.Errorf("%q has %d characters", term, n)
			}
		}
	})
}
