package verify

import (
	"context"
	"fmt"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/percolator"
)

// serving compares what the search page shows: exactly the canonical documents.
func (c *check) serving(ctx context.Context) error {
	seen := map[string]bool{}
	for r, err := range rows(c.reader.Scan(ctx, index.Serving, percolator.All())) {
		if err != nil {
			return fmt.Errorf("reading %s: %w", index.Serving, err)
		}
		d := c.web.documents[r.key]
		if d == nil || !d.canon {
			c.compare("serving document", r.key, "", "a document that is not canonical")
			continue
		}
		seen[r.key] = true
		c.compare("serving cluster", r.key, d.hash, column(c, r, index.Served))
		want := c.web.clusterAnchors(c.web.clusters[d.hash])
		c.compare("serving anchors", r.key, printList(want), printList(column(c, r, index.ServedAnchors)))
		if err := c.servedContent(ctx, d, r); err != nil {
			return err
		}
	}
	for _, url := range c.web.urls {
		if c.web.documents[url].canon && !seen[url] {
			c.compare("serving document", url, "a document", "")
		}
	}
	return nil
}

// servedContent compares what a search result shows, and the list of terms, with digests; only if
// they differ, the page is read once more.
func (c *check) servedContent(ctx context.Context, d *document, r row) error {
	content, terms := column(c, r, index.ServedContent), column(c, r, index.ServedTerms)
	if digestOf(content) == d.content && digestOfTerms(terms) == d.postings {
		return nil
	}
	p, err := c.reread(ctx, r.key)
	if err != nil {
		return err
	}
	c.compareContent("serving document", r.key, index.NewContent(p), content)
	c.compareTerms("serving terms", r.key, p.Terms, terms)
	return nil
}

// reread parses a document once more, for a message.
func (c *check) reread(ctx context.Context, url string) (*page.Page, error) {
	raw, err := index.Response.Get(ctx, c.reader, url)
	if err != nil {
		return nil, err
	}
	capture, err := index.DecodeCapture(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	return page.Parse(url, capture.Header, capture.Body)
}
