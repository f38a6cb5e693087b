package verify

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/internal/webindex/index"
)

// anchor is a text with the number of links that carry it.
type anchor struct {
	text  int32
	links int
}

// sortAnchors lists the texts of the most links first, those of equally many by text, up to the
// index's limit.
func (w *web) sortAnchors(counts map[int32]int) []anchor {
	var list []anchor
	for text, n := range counts {
		list = append(list, anchor{text, n})
	}
	slices.SortFunc(list, func(a, b anchor) int {
		return cmp.Or(b.links-a.links, strings.Compare(w.texts.list[a.text], w.texts.list[b.text]))
	})
	if len(list) > index.MaxAnchors {
		list = list[:index.MaxAnchors]
	}
	return list
}

// clusterAnchors adds up what is said about all members.
func (w *web) clusterAnchors(members []int32) []anchor {
	counts := map[int32]int{}
	for _, m := range members {
		for _, a := range w.documents[m].anchors {
			counts[a.text] += a.links
		}
	}
	return w.sortAnchors(counts)
}

// printAnchors is the form in which anchors are stored and compared; none is "".
func (w *web) printAnchors(list []anchor) string {
	out := make([]index.Anchor, len(list))
	for i, a := range list {
		out[i] = index.Anchor{Text: w.texts.list[a.text], Links: a.links}
	}
	return printJSON(out, len(out) == 0)
}

// printJSON prints a value in one line; what is empty is nothing.
func printJSON(v any, empty bool) string {
	if empty {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
