package data

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/formats"
	"github.com/gopercolator/percolator/percolator"
)

// A key that stands twice in a file is named with both of its rows, whatever the order of the
// file, and whatever cannot be read in between.
func TestOnce(t *testing.T) {
	t.Parallel()
	unreadable := errors.New("line 2")
	rows := func(keys string) iter.Seq2[formats.Row, error] {
		return func(yield func(formats.Row, error) bool) {
			for _, key := range strings.Fields(keys) {
				var err error
				if key == "!" {
					key, err = "", unreadable
				}
				if !yield(formats.Row{Key: key}, err) {
					return
				}
			}
		}
	}
	for keys, want := range map[string]string{
		"":                  "",
		"a b c":             "a b c",
		"c a b":             "c a b",
		"a a":               "a <2 a 1>",
		"a b b c":           "a b <3 b 2> c",
		"b a ! b a c b":     "b a ! <4 b 1> <5 a 2> c <7 b 1>",
		"a ! b ! c ! d ! a": "a ! b ! c ! d ! <9 a 1>",
	} {
		var repeated map[string]bool
		read := once(t.Context(), rows(keys), &repeated)
		for range 2 { // before the import and for it
			var got []string
			for row, err := range read {
				var n, of int
				var key string
				switch {
				case errors.Is(err, unreadable):
					got = append(got, "!")
				case errors.Is(err, percolator.ErrInvalidArgument):
					_, text, _ := strings.Cut(err.Error(), "row ")
					if _, err := fmt.Sscanf(text, "%d of the file has the key %1s, as row %d does", &n, &key, &of); err != nil {
						t.Fatal(text, err)
					}
					got = append(got, fmt.Sprintf("<%d %s %d>", n, key, of))
				default:
					got = append(got, row.Key)
				}
			}
			if !slices.Equal(got, splitMarks(want)) {
				t.Errorf("%q: %q, want %q", keys, got, want)
			}
		}
		for range read { // and may be broken off
			break
		}
	}
}

// splitMarks splits at spaces outside of <…>.
func splitMarks(text string) (list []string) {
	for _, field := range strings.Fields(text) {
		if n := len(list); n > 0 && strings.HasPrefix(list[n-1], "<") && !strings.HasSuffix(list[n-1], ">") {
			list[n-1] += " " + field
		} else {
			list = append(list, field)
		}
	}
	return list
}
