package page

import (
	"iter"
	"slices"
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
// less) that has as many terms of query as any, or the start of text when there are none. Of several
// it is the first that a sentence has ended before: what comes before that is often the navigation
// of a site. An ellipsis marks where text was cut.
func Snippet(text, query string, limit int) string {
	first, last := bestSpan(text, termSet(query), limit)
	spare := max(0, limit-utf8.RuneCountInString(text[first:last]))
	start := wordBefore(text, first, min(limit/3, spare/2))
	end := wordBefore(text, len(text), 0)
	if rest := text[start:]; utf8.RuneCountInString(rest) > limit {
		end = start + byteIndex(rest, limit)
		// End with a whole word, unless that would leave out one that was searched for.
		if i := strings.LastIndexFunc(text[start:end], unicode.IsSpace); i > 0 && start+i >= last {
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

// hit is a word of a text with wanted terms.
type hit struct {
	start, end int
	terms      []string
}

// bestSpan returns the bounds of the words within limit characters that have the most of the wanted
// terms, and no more words than that takes; 0, 0: there are none.
func bestSpan(text string, wanted map[string]bool, limit int) (first, last int) {
	body := strings.Index(text, ". ")
	var (
		span     []hit // the one that ends with the last word
		length   int   // of it, in characters
		at, best int
		count    = map[string]int{} // of the terms in span
	)
	for start, end := range eachWord(text) {
		h := hit{start, end, found(text[start:end], wanted)}
		if len(h.terms) == 0 {
			continue
		}
		if len(span) == 0 {
			at, length = start, 0
		}
		length += utf8.RuneCountInString(text[at:end])
		span, at = append(span, h), end
		for _, term := range h.terms {
			count[term]++
		}
		alone := func(term string) bool { return count[term] == 1 }
		for len(span) > 1 && (length > limit || !slices.ContainsFunc(span[0].terms, alone)) {
			for _, term := range span[0].terms {
				if count[term]--; count[term] == 0 {
					delete(count, term)
				}
			}
			length -= utf8.RuneCountInString(text[span[0].start:span[1].start])
			span = span[1:]
		}
		if n := len(count); n > best || n == best && first <= body && span[0].start > body {
			first, last, best = span[0].start, end, n
		}
	}
	return first, last
}

// Highlight divides text into fragments, so that every word with a term of query is a fragment with
// Match set. Put together the fragments are text.
func Highlight(text, query string) []Fragment {
	wanted := termSet(query)
	var fragments []Fragment
	done := 0
	for start, end := range eachWord(text) {
		if len(found(text[start:end], wanted)) == 0 {
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

// found returns the terms of the set that word, as written, has.
func found(word string, set map[string]bool) (terms []string) {
	if len(set) == 0 {
		return nil
	}
	for term := range eachTerm(word) {
		if set[term] {
			terms = append(terms, term)
		}
	}
	return terms
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
