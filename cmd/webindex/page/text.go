package page

import (
	"unicode"
	"unicode/utf8"
)

// foldedText is text on one line: white space is one space, and there is none at the ends. With
// lines, what separate divides is on lines of its own.
type foldedText struct {
	max   int // bytes
	lines bool
	end   bool // of a line, since the last character
	cut   bool
	space bool // there was white space since the last character
	text  []byte
}

// add appends s.
func (t *foldedText) add(s []byte) {
	for len(s) > 0 && !t.cut {
		r, size := utf8.DecodeRune(s)
		if unicode.IsSpace(r) {
			t.space = true
		} else {
			t.addChar(s[:size])
		}
		s = s[size:]
	}
}

func (t *foldedText) addChar(c []byte) {
	need := len(c)
	if t.space && len(t.text) > 0 {
		need++
	}
	if len(t.text)+need > t.max {
		t.cut = true
		return
	}
	switch {
	case need > len(c) && t.end:
		t.text = append(t.text, '\n')
	case need > len(c):
		t.text = append(t.text, ' ')
	}
	t.space, t.end = false, false
	t.text = append(t.text, c...)
}

// separate makes what is added next another word.
func (t *foldedText) separate() { t.space, t.end = true, t.lines }

func (t *foldedText) String() string { return string(t.text) }

// inline are the elements that may begin and end within a word; all others separate words.
var inline = map[string]bool{
	"a": true, "abbr": true, "acronym": true, "b": true, "bdi": true, "bdo": true, "big": true, "cite": true,
	"code": true, "data": true, "del": true, "dfn": true, "em": true, "font": true, "i": true, "ins": true,
	"kbd": true, "mark": true, "nobr": true, "q": true, "s": true, "samp": true, "small": true, "span": true,
	"strike": true, "strong": true, "sub": true, "sup": true, "time": true, "tt": true, "u": true, "var": true,
	"wbr": true,
}
