package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/percolator"
)

// documents reads every raw response, compares what the observers noted about the page alone, and
// builds the web.
func (c *check) documents(ctx context.Context) error {
	for r, err := range rows(c.reader.Scan(ctx, index.Documents, percolator.All())) {
		if err != nil {
			return fmt.Errorf("reading %s: %w", index.Documents, err)
		}
		c.page(r)
	}
	return nil
}

// facts are what a response says by itself about its URL.
type facts struct {
	hash, redirect string // "" if it is no document, or no redirect
	content        index.Content
	terms          map[string]int
	links          []page.Link
}

// page checks one URL.
func (c *check) page(r row) {
	url := c.web.intern(r.key)
	f := c.facts(url, r)
	c.compare("cluster", url, f.hash, column(c, r, index.Hash))
	c.compare("redirect", url, f.redirect, column(c, r, index.Redirect))
	c.compareContent("content", url, f.content, column(c, r, index.Derived))
	c.compareTerms("terms", url, f.terms, column(c, r, index.Terms))
	c.compare("outgoing links", url, printList(f.links), printList(column(c, r, index.OutLinks)))
}

// facts reads a response. What all passes need of it becomes a part of the web.
func (c *check) facts(url string, r row) facts {
	capture := c.capture(r)
	if capture == nil {
		return facts{}
	}
	if target, ok := page.RedirectTarget(url, capture.Status, capture.Header); ok {
		target = c.web.intern(target)
		c.web.redirects[target] = append(c.web.redirects[target], url)
		c.web.leadsTo[url] = target
		return facts{redirect: target}
	}
	if !capture.IsDocument() {
		return facts{}
	}
	p, err := page.Parse(url, capture.Header, capture.Body)
	if err != nil {
		c.compare("raw response", url, "a page", err.Error())
		return facts{}
	}
	// The index takes p.Cluster; here it is computed once more.
	sum := sha256.Sum256(page.Decode(capture.Header, capture.Body))
	f := facts{hash: hex.EncodeToString(sum[:]), content: index.NewContent(p), terms: p.Terms, links: p.Links}
	c.addDocument(url, r, f)
	return f
}

// capture decodes the raw response; nil if there is none.
func (c *check) capture(r row) *index.Capture {
	raw, ok := r.cells[index.Response.Name]
	if !ok {
		c.compare("digest", r.key, "", column(c, r, index.Digest))
		return nil
	}
	c.compare("digest", r.key, index.Fingerprint(raw), column(c, r, index.Digest))
	capture, err := index.DecodeCapture(raw)
	if err != nil {
		c.compare("raw response", r.key, "a readable response", err.Error())
		return nil
	}
	return capture
}

func (c *check) addDocument(url string, r row, f facts) {
	c.web.documents[url] = &document{
		hash: f.hash, content: digestOf(f.content), postings: digestOfTerms(f.terms),
	}
	for _, l := range f.links {
		target := c.web.intern(l.Target)
		c.web.links[target] = append(c.web.links[target], link{url, c.web.internAll(l.Anchors)})
	}
}
