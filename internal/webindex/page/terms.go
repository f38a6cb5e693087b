package page

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Lengths of a term in characters.
const (
	minTerm = 2
	maxTerm = 32
)

// stopTerms are too frequent in English to say anything about a page.
var stopTerms = map[string]bool{
	"an": true, "and": true, "are": true, "as": true, "at": true, "be": true, "by": true, "for": true, "from": true,
	"in": true, "is": true, "it": true, "of": true, "on": true, "or": true, "that": true, "the": true, "this": true,
	"to": true, "was": true, "with": true,
}

// Terms returns the terms of a text or of a query, in order and with repetitions.
//
// A term is a longest run of letters and digits (with their combining marks) of 2 to 32 characters,
// compatibility composed (NFKC) and in lower case; runs that are shorter or longer, and the most
// frequent English words, are left out. Chinese and Japanese, which are written without spaces, are
// cut in overlapping pairs of characters.
func Terms(text string) []string {
	var terms []string
	eachTerm(text, func(term string) bool {
		terms = append(terms, term)
		return true
	})
	return terms
}

// countTerms counts the terms of the texts. Terms beyond the first MaxTerms distinct ones are left
// out, and complete is false.
func countTerms(texts ...string) (counts map[string]int, complete bool) {
	counts, complete = make(map[string]int), true
	for _, text := range texts {
		eachTerm(text, func(term string) bool {
			if _, known := counts[term]; !known && len(counts) == MaxTerms {
				complete = false
			} else {
				counts[term]++
			}
			return true
		})
	}
	return counts, complete
}

// eachTerm calls f with the terms of text in order until f returns false.
func eachTerm(text string, f func(term string) bool) {
	text = foldText(text)
	for text != "" {
		start := strings.IndexFunc(text, startsTerm)
		if start < 0 {
			return
		}
		text = text[start:]
		first, _ := utf8.DecodeRuneInString(text)
		paired := unspaced(first)
		end := strings.IndexFunc(text, func(r rune) bool {
			return !continuesTerm(r) || startsTerm(r) && unspaced(r) != paired
		})
		if end < 0 {
			end = len(text)
		}
		run := text[:end]
		text = text[end:]
		if paired {
			if !eachPair(run, f) {
				return
			}
		} else if n := utf8.RuneCountInString(run); n >= minTerm && n <= maxTerm && !stopTerms[run] {
			if !f(run) {
				return
			}
		}
	}
}

// eachPair calls f with the overlapping pairs of characters in run until f returns false.
func eachPair(run string, f func(term string) bool) bool {
	previous := -1
	for i, r := range run {
		if previous >= 0 && !f(run[previous:i+utf8.RuneLen(r)]) {
			return false
		}
		previous = i
	}
	return true
}

// foldText makes texts comparable that differ only in case, width, ligatures and the like.
func foldText(text string) string {
	text = strings.ToLower(norm.NFKC.String(text))
	text = strings.Map(func(r rune) rune {
		if r == '\u00ad' || r == '\u200b' { // where a word may be broken
			return -1
		}
		return r
	}, text)
	// Lower case may have left a letter and its mark apart, as may the places where a word could be
	// broken.
	return norm.NFKC.String(text)
}

func startsTerm(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

func continuesTerm(r rune) bool { return startsTerm(r) || unicode.IsMark(r) }

// unspaced reports whether r belongs to a script without spaces between words. U+30FC lengthens a
// Japanese vowel.
func unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || r == '\u30fc'
}
