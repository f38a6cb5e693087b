package verify

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/gopercolator/percolator/internal/text"
)

// Difference is something that the store has and should not have, lacks, or has wrong.
type Difference struct {
	What string // the kind of thing, such as "canonical"
	Row  string // where: a URL, a hash, a pair
	Want string // recomputed; "" is nothing
	Got  string // stored; "" is nothing
}

// String is the difference on one line that is safe to print. Of long values it shows where they
// begin to differ.
func (d Difference) String() string {
	same := 0
	for same < min(len(d.Want), len(d.Got)) && d.Want[same] == d.Got[same] {
		same++
	}
	return fmt.Sprintf("%s of %s: stored %s, recomputed %s", d.What, visible(d.Row), excerpt(d.Got, same), excerpt(d.Want, same))
}

// excerpt prints s around byte at.
func excerpt(s string, at int) string {
	const before, length = 40, 160
	if s == "" {
		return "nothing"
	}
	start, end := max(0, at-before), min(len(s), max(0, at-before)+length)
	cut := visible(strings.ToValidUTF8(s[start:end], ""))
	if start > 0 {
		cut = "…" + cut
	}
	if end < len(s) {
		cut += "…"
	}
	return cut
}

// visible is s with the zero byte in a pair as a bar, and nothing that could damage a terminal.
func visible(s string) string { return text.Line(strings.ReplaceAll(s, "\x00", "|")) }

// printNumber prints a number; 0 is not stored.
func printNumber(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// printList prints a list on one line; an empty one is not stored.
func printList[T any](list []T) string {
	if len(list) == 0 {
		return ""
	}
	b, err := json.Marshal(list)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
