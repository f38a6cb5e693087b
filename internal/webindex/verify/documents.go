package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/gopercolator/percolator/percolator"

	"github.com/gopercolator/percolator/internal/webindex/index"
	"github.com/gopercolator/percolator/internal/webindex/page"
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
	c.web.complete()
	return nil
}

// page checks one URL.
func (c *check) page(r row) {
	var (
		url      = r.key
		hash     string
		redirect string
		content  index.Content
		terms    map[string]int
		links    []page.Link
	)
	if capture := c.capture(r); capture != nil {
		if target, ok := page.RedirectTarget(url, capture.Status, capture.Header); ok {
			redirect = target
			c.addRedirect(url, target)
		} else if page.IsDocument(capture.Status, capture.Header) {
			hash, content, terms, links = c.addDocument(r, capture)
		}
	}
	c.compare("cluster", url, hash, column(c, r, index.Hash))
	c.compare("redirect", url, redirect, column(c, r, index.Redirect))
	c.compareContent("content", url, content, column(c, r, index.Derived))
	c.compareTerms("terms", url, terms, column(c, r, index.Terms))
	stored := column(c, r, index.OutLinks)
	c.compare("outgoing links", url, printJSON(links, len(links) == 0), printJSON(stored, len(stored) == 0))
	if received := column(c, r, index.Received); received != 0 {
		c.web.received[c.web.urls.id(url)] = received
	}
	if hash == "" {
		c.compare("rank", url, "", printNumber(column(c, r, index.Rank)))
		passed := column(c, r, index.PassedTo)
		c.compare("passed to", url, "", printJSON(passed, len(passed) == 0))
		c.compare("anchors", url, "", printAnchorsOf(column(c, r, index.Anchors)))
	}
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
		c.found++
		c.report(Difference{What: "raw response", Row: r.key, Want: "a readable response", Got: err.Error()})
		return nil
	}
	return capture
}

func (c *check) addRedirect(url, target string) {
	from, to := c.web.urls.id(url), c.web.urls.id(target)
	c.web.redirects[to] = append(c.web.redirects[to], from)
	c.web.leadsTo[from] = to
}

// addDocument parses a page and keeps what all passes need of it.
func (c *check) addDocument(r row, capture *index.Capture) (
	hash string, content index.Content, terms map[string]int, links []page.Link,
) {
	p, err := page.Parse(r.key, capture.Header, capture.Body)
	if err != nil {
		c.found++
		c.report(Difference{What: "raw response", Row: r.key, Want: "a page", Got: err.Error()})
		return "", content, nil, nil
	}
	content = contentOf(p)
	sum := sha256.Sum256(page.Decode(capture.Header, capture.Body))
	d := &document{
		hash:          sum,
		content:       digestOf(content),
		storedRank:    column(c, r, index.Rank),
		storedAnchors: printAnchorsOf(column(c, r, index.Anchors)),
	}
	for term, n := range p.Terms {
		d.postings.add(term, int64(n))
	}
	for _, url := range column(c, r, index.PassedTo) {
		d.storedTargets = append(d.storedTargets, c.web.urls.id(url))
	}
	source := c.web.urls.id(r.key)
	c.web.documents[source] = d
	for _, l := range p.Links {
		edge := link{target: c.web.urls.id(l.Target), source: source}
		for _, text := range l.Anchors {
			edge.texts = append(edge.texts, c.web.texts.id(text))
		}
		c.web.links = append(c.web.links, edge)
	}
	return hex.EncodeToString(sum[:]), content, p.Terms, p.Links
}

func contentOf(p *page.Page) index.Content {
	return index.Content{Title: p.Title, Excerpt: page.Snippet(p.Text, "", index.MaxExcerpt)}
}

// anchors compares anchor texts, which depend on all other pages.
func (c *check) anchors(context.Context) error {
	for id, url := range c.web.urls.list {
		if d := c.web.documents[int32(id)]; d != nil {
			c.compare("anchors", url, c.web.printAnchors(d.anchors), d.storedAnchors)
		}
	}
	return nil
}

// printNumber prints a number; 0 is not stored.
func printNumber(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func printAnchorsOf(list []index.Anchor) string { return printJSON(list, len(list) == 0) }
