package index

import (
	"context"
	"fmt"
	"slices"

	"github.com/gopercolator/percolator/percolator"
)

// InLinks are the pages that link to a URL, each with the distinct texts of its links.
type InLinks map[string][]string

// CollectInLinks reads who links to target. A redirect forwards its in-links, so the links to every
// URL that redirects to target count as well, through any number of hops; a circle of redirects is
// walked once. Links of target to itself, also in a roundabout way, do not count.
func CollectInLinks(ctx context.Context, r percolator.Reader, target string) (InLinks, error) {
	found := InLinks{}
	seen := map[string]bool{target: true}
	for todo := []string{target}; len(todo) > 0; {
		next := todo[0]
		todo = todo[1:]
		for e, err := range r.Scan(ctx, Links, PairsOf(next)) {
			if err != nil {
				return nil, fmt.Errorf("in-links of %s: %w", target, err)
			}
			source, redirect := LinkSource(e.Cell.Column)
			switch {
			case redirect:
				if !seen[source] {
					seen[source] = true
					todo = append(todo, source)
				}
			case source != target:
				if err := found.add(source, e); err != nil {
					return nil, err
				}
			}
		}
	}
	return found, nil
}

// add counts a link. A page may link to the target and to a redirect to it: that is one page, with
// the texts of both.
func (in InLinks) add(source string, e percolator.Entry) error {
	texts, err := LinkAnchors(source).Decode(e.Cell.Row, e.Value)
	if err != nil {
		return err
	}
	if known, ok := in[source]; ok {
		texts = append(texts, known...)
		slices.Sort(texts)
		texts = slices.Compact(texts)
	}
	in[source] = texts
	return nil
}

// Anchors lists the texts with the number of pages that use each.
func (in InLinks) Anchors() []Anchor {
	counts := map[string]int{}
	for _, texts := range in {
		for _, t := range texts {
			counts[t]++
		}
	}
	return rankAnchors(counts)
}
