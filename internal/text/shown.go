package text

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Shown makes a row key or a column readable: as it is, or in Go's quotes.
func Shown(key string) string {
	unreadable := func(r rune) bool { return r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if key == "" || strings.HasPrefix(key, `"`) || strings.ContainsFunc(key, unreadable) {
		return strconv.Quote(key)
	}
	return key
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
