package page

import (
	"iter"
	"slices"
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
	return slices.Collect(eachTerm(text))
}

// countTerms counts the terms of the texts. Terms beyond the first MaxTerms distinct ones are left
// out, and complete is false.
func countTerms(texts ...string) (counts map[string]int, complete bool) {
	counts, complete = make(map[string]int), true
	for _, text := range texts {
		for term := range eachTerm(text) {
			if _, known := counts[term]; !known && len(counts) == MaxTerms {
				complete = false
			} else {
				counts[term]++
			}
		}
	}
	return counts, complete
}

// eachTerm yields the terms of text in order.
func eachTerm(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for run := range eachRun(foldText(text)) {
			if first, _ := utf8.DecodeRuneInString(run); unspaced(first) {
				for pair := range eachPair(run) {
					if !yield(pair) {
						return
					}
				}
			} else if n := utf8.RuneCountInString(run); n >= minTerm && n <= maxTerm && !stopTerms[run] && !yield(run) {
				return
			}
		}
	}
}

// eachRun yields the longest runs in text of characters of terms, all with or all without spaces
// between words.
func eachRun(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for {
			start := strings.IndexFunc(text, startsTerm)
			if start < 0 {
				return
			}
			text = text[start:]
			first, _ := utf8.DecodeRuneInString(text)
			end := strings.IndexFunc(text, func(r rune) bool {
				return !continuesTerm(r) || startsTerm(r) && unspaced(r) != unspaced(first)
			})
			if end < 0 {
				end = len(text)
			}
			if !yield(text[:end]) {
				return
			}
			text = text[end:]
		}
	}
}

// eachPair yields the overlapping pairs of characters in run.
func eachPair(run string) iter.Seq[string] {
	return func(yield func(string) bool) {
		previous := -1
		for i, r := range run {
			if previous >= 0 && !yield(run[previous:i+utf8.RuneLen(r)]) {
				return
			}
			previous = i
		}
	}
}

// foldText makes texts comparable that differ only in case, width, ligatures and the like.
func foldText(text string) string {
	text = strings.ToLower(norm.NFKC.String(text))
	text = strings.Map(func(r rune) rune {
		if breaksWord(r) {
			return -1
		}
		return r
	}, text)
	// Lower case may have left a letter and its mark apart, as may the places where a word could be
	// broken.
	return norm.NFKC.String(text)
}

// breaksWord reports whether r is where a word may be broken, and not itself a part of it.
func breaksWord(r rune) bool { return r == '\u00ad' || r == '\u200b' }

func startsTerm(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

func continuesTerm(r rune) bool { return startsTerm(r) || unicode.IsMark(r) }

// unspaced reports whether r belongs to a script without spaces between words. U+30FC lengthens a
// Japanese vowel.
func unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || r == '\u30fc'
}
