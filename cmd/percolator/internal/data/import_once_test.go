package data

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
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

// Of random keys, in order or not, whatever cannot be read among them, the first of each stays and
// each later one is refused, in whatever pass.
func TestOnceAtRandom(t *testing.T) {
	t.Parallel()
	unreadable := errors.New("unreadable")
	for seed := range uint64(500) {
		d := rand.New(rand.NewPCG(seed, 39))
		keys := make([]string, d.IntN(40))
		for i := range keys {
			if keys[i] = fmt.Sprint(d.IntN(1 + d.IntN(60))); d.IntN(8) == 0 {
				keys[i] = ""
			}
		}
		if d.IntN(2) == 0 {
			slices.Sort(keys)
		}
		rows := func(yield func(formats.Row, error) bool) {
			for _, key := range keys {
				var err error
				if key == "" {
					err = unreadable
				}
				if !yield(formats.Row{Key: key}, err) {
					return
				}
			}
		}
		var repeated map[string]bool
		for range 2 {
			seen, n := map[string]bool{}, 0
			for row, err := range once(t.Context(), rows, &repeated) {
				switch key := keys[n]; {
				case key == "" && !errors.Is(err, unreadable), key != "" && seen[key] != errors.Is(err, percolator.ErrInvalidArgument), err == nil && row.Key != key:
					t.Fatalf("seed %d, row %d of %q: %q, %v", seed, n, keys, row.Key, err)
				}
				seen[keys[n]] = true
				n++
			}
			if n != len(keys) {
				t.Fatalf("seed %d: %d rows of %d", seed, n, len(keys))
			}
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
