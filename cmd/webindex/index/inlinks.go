package index

import (
	"context"
	"fmt"
	"slices"

	"github.com/gopercolator/percolator/percolator"
)

// InLinks are the pages that link to a URL, each with the distinct texts of its links.
type InLinks map[string][]string

// CollectInLinks reads who links to each of some targets. A redirect forwards its in-links, so the
// links to every URL that redirects to a target count as well, through any number of hops; a circle
// of redirects is walked once. Links of a target to itself, also in a roundabout way, do not count.
// It sends a request for each step along all redirects together.
func CollectInLinks(ctx context.Context, r percolator.Scanner, targets ...string) ([]InLinks, error) {
	read := map[string]*linked{}
	for todo := targets; len(todo) > 0; {
		further, err := readLinked(ctx, r, todo, read)
		if err != nil {
			return nil, err
		}
		todo = further
	}
	found := make([]InLinks, len(targets))
	for i, target := range targets {
		found[i] = InLinks{}
		seen := map[string]bool{target: true}
		for todo := []string{target}; len(todo) > 0; todo = todo[1:] {
			l := read[todo[0]]
			for source, texts := range l.anchors {
				if source != target {
					found[i].add(source, texts)
				}
			}
			for _, from := range l.redirects {
				if !seen[from] {
					seen[from] = true
					todo = append(todo, from)
				}
			}
		}
	}
	return found, nil
}

// linked is what is stored of who links or redirects to a URL.
type linked struct {
	anchors   map[string][]string // by source
	redirects []string
}

// readLinked adds rows to read, and returns which others redirect to these and are not there yet.
func readLinked(ctx context.Context, r percolator.Scanner, urls []string, read map[string]*linked) (further []string, err error) {
	var rows []percolator.Range
	for _, url := range urls {
		if read[url] == nil {
			read[url] = &linked{anchors: map[string][]string{}}
			rows = append(rows, percolator.Row(url))
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	for e, err := range r.ScanWith(ctx, Links, percolator.ScanOptions{Rows: rows}) {
		if err != nil {
			return nil, fmt.Errorf("in-links: %w", err)
		}
		l := read[e.Cell.Row]
		source, redirect := LinkSource(e.Cell.Column)
		if redirect {
			l.redirects, further = append(l.redirects, source), append(further, source)
		} else if l.anchors[source], err = LinkAnchors(source).Decode(e.Cell.Row, e.Value); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(further, func(url string) bool { return read[url] != nil }), nil
}

// add counts a link. A page may link to the target and to a redirect to it: that is one page, with
// the texts of both.
func (in InLinks) add(source string, texts []string) {
	if known, ok := in[source]; ok {
		texts = slices.Concat(known, texts)
		slices.Sort(texts)
		texts = slices.Compact(texts)
	}
	in[source] = texts
}

// count adds the number of pages that use each text.
func (in InLinks) count(texts map[string]int) {
	for _, list := range in {
		for _, t := range list {
			texts[t]++
		}
	}
}
