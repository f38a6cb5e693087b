package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/percolator"
)

// postings compares the terms under which each document is found. Segments are by term; so what
// belongs to a document is added up, and only documents whose sums differ are looked at closely.
func (c *check) postings(ctx context.Context) error {
	stored := map[*document]digestSum{}
	err := c.eachPosting(ctx, func(term, url string, n int64) {
		d := c.web.documents[url]
		if d == nil || !d.canon {
			c.compare("posting", placeOf(term, url), "", printNumber(n))
			return
		}
		sum := stored[d]
		sum.add(term, n)
		stored[d] = sum
	})
	if err != nil {
		return err
	}
	suspects := map[string]map[string]int{}
	for _, url := range c.web.urls {
		d := c.web.documents[url]
		sum := stored[d]
		switch {
		case !d.canon || sum == d.postings:
		case len(suspects) == maxSuspects:
			c.compare("postings", url, fmt.Sprintf("%d terms", d.postings.n), fmt.Sprintf("%d terms, not the same", sum.n))
		default:
			p, err := c.reread(ctx, url)
			if err != nil {
				return err
			}
			suspects[url] = p.Terms
		}
	}
	return c.explain(ctx, suspects)
}

// maxSuspects is how many documents with wrong postings are examined term by term.
const maxSuspects = 20

// explain names the postings that are wrong in the suspects, for each of which it has the terms.
func (c *check) explain(ctx context.Context, suspects map[string]map[string]int) error {
	if len(suspects) == 0 {
		return nil
	}
	err := c.eachPosting(ctx, func(term, url string, n int64) {
		if terms, ok := suspects[url]; ok {
			c.compare("posting", placeOf(term, url), printNumber(int64(terms[term])), printNumber(n))
			delete(terms, term)
		}
	})
	for url, terms := range suspects {
		for term, n := range terms {
			c.compare("posting", placeOf(term, url), strconv.Itoa(n), "")
		}
	}
	return err
}

// eachPosting calls f for every posting. One that no search would look for, because of its row, is
// a difference.
func (c *check) eachPosting(ctx context.Context, f func(term, url string, n int64)) error {
	for part := range index.SegmentParts { // so that a part of them is in memory
		postings := index.Postings{}
		for level := index.MaxLevel; level >= 0; level-- { // what younger segments say is right
			if err := c.segments(ctx, level, part, postings); err != nil {
				return err
			}
		}
		for _, term := range slices.Sorted(maps.Keys(postings)) {
			for _, url := range slices.Sorted(maps.Keys(postings[term])) {
				if n := postings[term][url]; n != 0 {
					f(term, url, int64(n))
				}
			}
		}
	}
	return nil
}

// segments adds what the segments of a level say of the terms of a part.
func (c *check) segments(ctx context.Context, level, part int, postings index.Postings) error {
	rows := percolator.Prefix(fmt.Sprintf("%d.%02x.", level, min(level, 1)*part))
	for e, err := range c.reader.Scan(ctx, index.Segments, rows) {
		if err != nil {
			return fmt.Errorf("reading %s: %w", index.Segments, err)
		}
		if e.Cell.Column == index.SegmentBytes.Name {
			continue
		}
		said, err := index.PostingsIn(e.Cell.Column).Decode(e.Cell.Row, e.Value)
		if _, notOne := index.ParseSegment(e.Cell.Row); err != nil || notOne != nil {
			c.compare("segment", e.Cell.Row, "a readable value", "one that cannot be decoded")
			continue
		}
		for term, frequencies := range said {
			switch {
			case index.PartOf(1, term) != part:
				if level > 0 {
					c.compare("segment", e.Cell.Row, "", "a term of another part")
				}
			case index.PostingsOf(term).Name != e.Cell.Column:
				c.compare("segment", e.Cell.Row, "", "a term of another cell")
			default:
				postings.Overlay(index.Postings{term: frequencies})
			}
		}
	}
	return nil
}

func placeOf(term, url string) string { return term + " in " + url }
