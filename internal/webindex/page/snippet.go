package page

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fragment is a piece of a text; Match says that it contains a term of the query.
type Fragment struct {
	Text  string
	Match bool
}

// Snippet returns a piece of text of about limit characters (with a word at either end more or
// less) around the first word that contains a term of query, or the start of text when there is
// none. An ellipsis marks where text was cut.
func Snippet(text, query string, limit int) string {
	wanted := termSet(query)
	at := 0
	for start, end := range eachWord(text) {
		if matches(text[start:end], wanted) {
			at = start
			break
		}
	}
	start := wordBefore(text, at, limit/3)
	end := wordBefore(text, len(text), 0)
	if rest := text[start:]; utf8.RuneCountInString(rest) > limit {
		end = start + byteIndex(rest, limit)
		// End with a whole word, unless that would leave out the one that was searched for.
		if i := strings.LastIndexFunc(text[start:end], unicode.IsSpace); i > 0 && start+i > at {
			end = start + i
		}
	}
	snippet := text[start:end]
	if start > 0 {
		snippet = "… " + snippet
	}
	if end < len(text) {
		snippet += " …"
	}
	return snippet
}

// Highlight divides text into fragments, so that every word with a term of query is a fragment with
// Match set. Put together the fragments are text.
func Highlight(text, query string) []Fragment {
	wanted := termSet(query)
	var fragments []Fragment
	done := 0
	for start, end := range eachWord(text) {
		if !matches(text[start:end], wanted) {
			continue
		}
		if start > done {
			fragments = append(fragments, Fragment{Text: text[done:start]})
		}
		fragments = append(fragments, Fragment{Text: text[start:end], Match: true})
		done = end
	}
	if done < len(text) {
		fragments = append(fragments, Fragment{Text: text[done:]})
	}
	return fragments
}

func termSet(query string) map[string]bool {
	set := make(map[string]bool)
	for term := range eachTerm(query) {
		set[term] = true
	}
	return set
}

// matches reports whether word, as written, has a term of the set.
func matches(word string, set map[string]bool) bool {
	if len(set) == 0 {
		return false
	}
	for term := range eachTerm(word) {
		if set[term] {
			return true
		}
	}
	return false
}

// eachWord yields the bounds of the runs in text that no separator of terms divides.
func eachWord(text string) iter.Seq2[int, int] {
	separates := func(r rune) bool { return !continuesTerm(r) && !breaksWord(r) }
	return func(yield func(start, end int) bool) {
		at := 0
		for word := range strings.FieldsFuncSeq(text, separates) {
			start := at + strings.Index(text[at:], word)
			at = start + len(word)
			if !yield(start, at) {
				return
			}
		}
	}
}

// wordBefore returns the start of a word that is at most n characters before at.
func wordBefore(text string, at, n int) int {
	start := at
	for i := at; i > 0 && n >= 0; n-- {
		r, size := utf8.DecodeLastRuneInString(text[:i])
		if unicode.IsSpace(r) {
			start = i
		}
		if i -= size; i == 0 {
			start = 0
		}
	}
	return start
}

// byteIndex returns where in s the n-th character starts.
func byteIndex(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}
