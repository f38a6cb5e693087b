package page

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSnippetIsAroundTheTerm(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("sand and shingle ", 20) + "the old Fog-Signal still stands " + strings.Repeat("over the bay ", 20)
	text = strings.TrimSpace(text)
	for query, want := range map[string]string{
		"signal":      "… shingle the old Fog-Signal still stands over the bay over the …",
		"nothing":     "sand and shingle sand and shingle sand and shingle sand and …",
		"":            "sand and shingle sand and shingle sand and shingle sand and …",
		"bay STANDS!": "… old Fog-Signal still stands over the bay over the bay over the …",
	} {
		if got := Snippet(text, query, 63); got != want {
			t.Errorf("Snippet(%q) = %q (%d), want %q", query, got, utf8.RuneCountInString(got), want)
		}
	}
	if got := Snippet("short text", "text", 100); got != "short text" {
		t.Errorf("a short text becomes %q", got)
	}
	if got := Snippet("", "text", 100); got != "" {
		t.Errorf("no text becomes %q", got)
	}
}

func TestSnippetShowsTheTermAndIsShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 50)
	for _, text := range []string{
		strings.Repeat("word ", 300) + "needle" + strings.Repeat(" word", 300),
		strings.Repeat(long+" ", 30) + "needle " + strings.Repeat(long+" ", 30),
		strings.Repeat("灯台", 300) + " needle " + strings.Repeat("灯台", 300),
		"needle" + strings.Repeat(" word", 300),
		strings.Repeat("word ", 300) + "needle",
	} {
		got := Snippet(text, "Needle", 100)
		if n := utf8.RuneCountInString(got); !strings.Contains(got, "needle") || n > 104 || !utf8.ValidString(got) {
			t.Errorf("%d characters: %q", n, got)
		}
	}
}

// A snippet shows every word of the query that the text has close to another one: the piece around
// the first occurrence of any word, often that of the site's navigation, is not the best piece.
func TestSnippetShowsAllWordsOfTheQuery(t *testing.T) {
	t.Parallel()
	quay, ice := strings.Repeat("A quay of stone and a shed for nets. ", 12), strings.Repeat("Ice in two winters out of five. ", 12)
	for what, text := range map[string]string{
		"side by side": "Harbour book Words Tides Kelderby " + quay + "The harbour light stands at the end of the mole. " + ice,
		"far apart":    "Harbour book Words " + quay + "The light stands at the end of the mole. " + ice,
		"at the ends":  "Light " + quay + ice + "harbour",
		"apart, once":  quay + "The light. " + quay + "The harbour. " + quay,
	} {
		snippet := Snippet(text, "harbour light", 240)
		marked := map[string]bool{}
		for _, f := range Highlight(snippet, "harbour light") {
			if f.Match {
				marked[strings.ToLower(f.Text)] = true
			}
		}
		if n := utf8.RuneCountInString(snippet); !marked["harbour"] || !marked["light"] || n > 240+8 {
			t.Errorf("%s: %d characters, which mark %v:\n%s", what, n, marked, snippet)
		}
	}
}

// Where the words of the query occur again, the text of a page says more than its navigation.
func TestSnippetPrefersTheBody(t *testing.T) {
	t.Parallel()
	text := "Harbour book Words " + strings.Repeat("A quay of stone. ", 10) + "Every harbour has a light."
	if got := Snippet(text, "harbour", 60); !strings.Contains(got, "Every harbour has") {
		t.Errorf("%q", got)
	}
}

func TestHighlightMarksTheQuery(t *testing.T) {
	t.Parallel()
	got := Highlight("The LIGHT by light\u00adhouses, a light", "light lighthouses")
	want := []Fragment{
		{"The ", false}, {"LIGHT", true}, {" by ", false}, {"light\u00adhouses", true}, {", a ", false}, {"light", true},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := Highlight("nothing here", ""); !slices.Equal(got, []Fragment{{"nothing here", false}}) {
		t.Errorf("without a query: %+v", got)
	}
}

func FuzzSnippet(f *testing.F) {
	f.Add("some text here", "text", 5)
	f.Add("\xff\u00adlight", "light", 0)
	f.Add("one  two", "", 3)
	f.Fuzz(func(t *testing.T, text, query string, limit int) {
		limit = min(max(limit, 0), 1000)
		Snippet(text, query, limit)
		var b strings.Builder
		for _, fragment := range Highlight(text, query) {
			b.WriteString(fragment.Text)
		}
		if b.String() != text {
			t.Errorf("the fragments of %q are %q", text, b.String())
		}
	})
}
