package verify

import (
	"context"
	"fmt"
	"strconv"

	"github.com/gopercolator/percolator/percolator"

	"github.com/gopercolator/percolator/internal/webindex/index"
)

// postings compares the terms under which each document is found. The table is in the order of
// terms; so what belongs to a document is added up, and only documents whose sums differ are looked
// at closely.
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

// eachPosting calls f for every posting. One that nobody would look for, because of its row, is a
// difference.
func (c *check) eachPosting(ctx context.Context, f func(term, url string, n int64)) error {
	for e, err := range c.reader.Scan(ctx, index.Postings, percolator.All()) {
		if err != nil {
			return fmt.Errorf("reading %s: %w", index.Postings, err)
		}
		term, url := index.First(e.Cell.Row), e.Cell.Column
		n, err := index.Frequency(url).Decode(e.Cell.Row, e.Value)
		switch {
		case err != nil:
			c.compare("posting", placeOf(term, url), "a readable value", "one that cannot be decoded")
		case e.Cell.Row != index.PostingRow(term, url):
			c.compare("posting", placeOf(term, url), "", "one in a wrong row")
		default:
			f(term, url, n)
		}
	}
	return nil
}

func placeOf(term, url string) string { return term + " in " + url }
