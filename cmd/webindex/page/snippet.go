package page

import (
	"cmp"
	"iter"
	"maps"
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
// less) that has as many terms of query as any, or two pieces of half of that if these have more;
// the start of text when there are none. An ellipsis marks where text was cut.
func Snippet(text, query string, limit int) string {
	hits := findHits(text, termSet(query))
	spans, size := []span{bestSpan(text, hits, limit)}, limit
	if len(spans[0].without(hits)) > 0 {
		one := bestSpan(text, hits, limit/2)
		other := bestSpan(text, one.without(hits), limit/2)
		if len(one.terms)+len(other.terms) > len(spans[0].terms) {
			spans, size = []span{one, other}, limit/2
			slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.first, b.first) })
		}
	}
	var b strings.Builder
	done := 0
	for _, s := range spans {
		start, end := s.widen(text, size)
		switch {
		case start <= done: // the pieces meet
			start = done
		case done == 0:
			b.WriteString("… ")
		default:
			b.WriteString(" … ")
		}
		done = max(start, end)
		b.WriteString(text[start:done])
	}
	if done < len(text) {
		b.WriteString(" …")
	}
	return b.String()
}

// hit is a word of a text with wanted terms.
type hit struct {
	start, end int
	terms      []string
}

func findHits(text string, wanted map[string]bool) (hits []hit) {
	for start, end := range eachWord(text) {
		if terms := found(text[start:end], wanted); len(terms) > 0 {
			hits = append(hits, hit{start, end, terms})
		}
	}
	return hits
}

// span is a part of a text from the beginning of a hit to the end of one.
type span struct {
	first, last int
	terms       map[string]int // how often it has each
}

// without are the hits with terms that s lacks.
func (s span) without(hits []hit) (rest []hit) {
	for _, h := range hits {
		h.terms = slices.DeleteFunc(slices.Clone(h.terms), func(term string) bool { return s.terms[term] > 0 })
		if len(h.terms) > 0 {
			rest = append(rest, h)
		}
	}
	return rest
}

// widen adds words on both sides, up to limit characters.
func (s span) widen(text string, limit int) (start, end int) {
	spare := max(0, limit-utf8.RuneCountInString(text[s.first:s.last]))
	start = wordBefore(text, s.first, min(limit/3, spare/2))
	end = wordBefore(text, len(text), 0)
	if rest := text[start:]; utf8.RuneCountInString(rest) > limit {
		end = start + byteIndex(rest, limit)
		// End with a whole word, unless that would leave out one that was searched for.
		if i := strings.LastIndexFunc(text[start:end], unicode.IsSpace); i > 0 && start+i >= s.last {
			end = start + i
		}
	}
	return start, end
}

// bestSpan is the one within limit characters that has the most terms, and no more words than that
// takes. Of several it is the first that a sentence has ended before: what comes before that is
// often the navigation of a site.
func bestSpan(text string, hits []hit, limit int) (best span) {
	body := strings.Index(text, ". ")
	count := map[string]int{} // of the terms of the hits from first
	alone := func(term string) bool { return count[term] == 1 }
	first, length := 0, 0 // of these hits, in characters
	for i, h := range hits {
		if i > first {
			length += utf8.RuneCountInString(text[hits[i-1].end:h.start])
		}
		length += utf8.RuneCountInString(text[h.start:h.end])
		for _, term := range h.terms {
			count[term]++
		}
		for first < i && (length > limit || !slices.ContainsFunc(hits[first].terms, alone)) {
			for _, term := range hits[first].terms {
				if count[term]--; count[term] == 0 {
					delete(count, term)
				}
			}
			length -= utf8.RuneCountInString(text[hits[first].start:hits[first+1].start])
			first++
		}
		start := hits[first].start
		if n := len(count); n > len(best.terms) || n == len(best.terms) && best.first <= body && start > body {
			best = span{start, h.end, maps.Clone(count)}
		}
	}
	return best
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
