package text

import "fmt"

// longest bounds the work of looking for a similar name.
const longest = 64

// DidYouMean is "; did you mean X?" for the name that is nearest to given, or "" where none is
// near.
func DidYouMean(given string, names ...string) string {
	n := Nearest(given, names...)
	if n == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", n)
}

// Nearest is the name that differs from given in the fewest bytes, in at most three and at most
// half of its own; "" if there is none.
func Nearest(given string, names ...string) string {
	best, nearest := "", longest
	for _, name := range names {
		if len(given) > longest || len(name) > longest {
			continue
		}
		if n := distance(given, name); n <= min(len(name)/2, 3) && n < nearest {
			best, nearest = name, n
		}
	}
	return best
}

// distance is how many bytes have to be inserted, removed or replaced to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
