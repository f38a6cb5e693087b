// Package text is what terminals show. What other people have stored or sent must not move their
// cursor, set their title, or turn the direction of what stands beside it; and a misspelt name
// leads to the one that was meant.
package text

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Lines is text with everything but what can be seen, line breaks and tabs written as Go writes it:
// control characters, those that change the direction of text, and bytes that are no UTF-8.
func Lines(text string) string { return escape(text, "\n\t") }

// Line is Lines for text that stays on one line.
func Line(text string) string { return escape(text, "") }

func escape(text, keep string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		char := text[:size]
		text = text[size:]
		bad := r == utf8.RuneError && size == 1
		if !bad && unicode.IsPrint(r) || strings.Contains(keep, char) {
			b.WriteString(char)
		} else {
			quoted := strconv.Quote(char)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// JSON is the same JSON with escapes for what encoding/json leaves as it is: C1's control
// characters and those that change the direction of text.
func JSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if r == '\n' || unicode.IsPrint(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// Beginning is at most n bytes of a text, and ends with a whole character.
func Beginning(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for back := n; back >= 0 && back > n-utf8.UTFMax; back-- {
		if utf8.RuneStart(text[back]) {
			return text[:back]
		}
	}
	return text[:n] // it is no text
}

// Shown makes a row key or a column readable: as it is, or in Go's quotes.
func Shown(key string) string {
	unreadable := func(r rune) bool { return r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if key == "" || strings.HasPrefix(key, `"`) || strings.ContainsFunc(key, unreadable) {
		return strconv.Quote(key)
	}
	return key
}

// FromShown is the key that Shown has made readable, or that was typed.
func FromShown(shown string) (string, error) {
	if !strings.HasPrefix(shown, `"`) {
		return shown, nil
	}
	key, err := strconv.Unquote(shown)
	if err != nil {
		return "", fmt.Errorf("%s is not a string in quotes", shown)
	}
	return key, nil
}

// Age is a duration in its two largest units.
func Age(d time.Duration) string {
	d = max(0, d).Truncate(time.Second)
	const day = 24 * time.Hour
	switch {
	case d < time.Hour:
		return d.String()
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}

// At is a timestamp as messages write it, with its time; 0 is none.
func At[T interface {
	~int64
	Time() time.Time
}](ts T) string {
	if ts == 0 {
		return "0"
	}
	return strconv.FormatInt(int64(ts), 10) + " (" + ts.Time().UTC().Format(time.RFC3339) + ")"
}
