package console

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// formatDuration shows a time span with two or three digits.
func formatDuration(d time.Duration) string {
	switch s := d.Seconds(); {
	case d <= 0:
		return "0"
	case d < time.Millisecond:
		return strconv.FormatInt(d.Microseconds(), 10) + " µs"
	case d < time.Second:
		return digits(1000*s) + " ms"
	case d < time.Minute:
		return digits(s) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(s)%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

// formatAge is formatDuration to a tenth of a second.
func formatAge(d time.Duration) string {
	const tenth = time.Second / 10
	if d < tenth {
		return "0 s"
	}
	return formatDuration(d.Truncate(tenth))
}

// digits shows a number with as many digits as are worth reading.
func digits(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 10:
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	case v < 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return grouped(int64(math.Round(v)))
}

// grouped shows an integer with narrow spaces between thousands.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, text = "−", text[1:]
	}
	var b strings.Builder
	for i, d := range text {
		if i > 0 && (len(text)-i)%3 == 0 {
			b.WriteRune('\u202f')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

// formatUnit shows a value of a chart.
func formatUnit(unit string, v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case unit == "time":
		return formatDuration(time.Duration(v * float64(time.Second)))
	case unit == "rate":
		return digits(v) + "/s"
	}
	return digits(v)
}

func formatBytes(n int64) string {
	switch {
	case n < 0:
		return "size not read"
	case n == 1:
		return "1 byte"
	case n < 10_000:
		return grouped(n) + " bytes"
	case n < 10_000_000:
		return digits(float64(n)/1000) + " kB"
	}
	return digits(float64(n)/1e6) + " MB"
}

// formatTime is a timestamp of the oracle as a time.
func formatTime(ts tso.Timestamp) string {
	if ts == 0 {
		return "–"
	}
	return ts.Time().UTC().Format("2006-01-02 15:04:05.000")
}

// formatValue is the beginning of a value of so many bytes: the text form of its type, or text
// where it is text.
func formatValue(t percolator.Type, b []byte, size int64) string {
	if int64(len(b)) == size {
		text, err := t.Format(b)
		if err != nil {
			return fmt.Sprintf("%s (%v)", strconv.QuoteToASCII(string(b)), err)
		}
		b = []byte(text)
	}
	if utf8.Valid(b) && !strings.ContainsFunc(string(b), func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }) {
		return string(b)
	}
	return strconv.QuoteToASCII(string(b))
}

// plural chooses between the forms of a noun.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(int64(n)) + " " + many
}

// ack is an observer's acknowledgment for a column.
type ack struct{ Observer, Column string }

// ackOf takes apart the reserved name of an acknowledgment's column; nil for any other.
func ackOf(column string) *ack {
	rest, ok := strings.CutPrefix(column, "\x00ack\x00")
	observer, of, separated := strings.Cut(rest, "\x00")
	if !ok || !separated {
		return nil
	}
	return &ack{observer, of}
}
