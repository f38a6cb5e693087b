package page

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/html"
)

// Limits of what Parse keeps of a page; Page.Truncated tells that one was met.
const (
	// MaxTitle is the longest title in bytes.
	MaxTitle = 512
	// MaxText is the longest text in bytes. Terms are counted in all of the page's text
	// nevertheless.
	MaxText = 128 << 10
	// MaxTerms is the largest number of distinct terms: the first ones in the title and then in the
	// text.
	MaxTerms = 5000
	// MaxLinks is the largest number of distinct targets.
	MaxLinks = 10_000
	// MaxLinkBytes is how long all targets may be together.
	MaxLinkBytes = 4 << 20
	// MaxAnchors is the largest number of distinct anchor texts of one target.
	MaxAnchors = 100
	// MaxAnchor is the longest anchor text in bytes; longer ones are cut.
	MaxAnchor = 256
)

// Page is what the index knows of a document.
type Page struct {
	// Cluster is the identity of the content: the SHA-256 of what Decode returns, 64 lower-case hex
	// digits. The same text is thus one cluster however it was compressed, chunked or encoded on
	// its way.
	Cluster string
	// Title is the text of the first title element, "" without one.
	Title string
	// Text is the page's text without title, scripts and style sheets, on one line.
	Text string
	// Terms counts the terms of title and text, see the function Terms.
	Terms map[string]int
	// Links are the links to other documents, one for each distinct target, in order of their first
	// appearance.
	Links []Link
	// Truncated is set when something was left out because of a limit.
	Truncated bool
}

// Link is what a page says about another document.
type Link struct {
	// Target is the identity of the URL linked to.
	Target string
	// Anchors are the distinct texts of all links to Target in order of their first appearance,
	// pictures standing for their alternative texts. Empty texts are left out, so there may be
	// none.
	Anchors []string
}

// Parse reads the HTML document that was retrieved from docURL; body is free of transfer and
// content encodings. The only error is a docURL that has no identity: every body is a page, however
// malformed. Time and memory are proportional to the size of body.
//
// Links are the href attributes of a and area elements, resolved against the document's base (RFC
// 3986, section 5, and the first base element with an href). rel=nofollow makes no difference. Left
// out are links to the document itself, links to anything but http and https, and what cannot be
// understood as a URL.
func Parse(docURL string, header http.Header, body []byte) (*Page, error) {
	self, base, err := documentURL(docURL)
	if err != nil {
		return nil, err
	}
	decoded := Decode(header, body)
	c := collector{
		title: foldedText{max: MaxTitle},
		text:  foldedText{max: len(decoded) + 1},
	}
	c.read(decoded)
	c.endAnchor()

	text := c.text.String()
	// Cut no character in half.
	kept := strings.ToValidUTF8(text[:min(len(text), MaxText)], "")
	p := &Page{Cluster: cluster(decoded), Title: c.title.String(), Text: kept}
	terms, allTerms := countTerms(p.Title, text)
	p.Terms = terms
	links, allLinks := resolve(c.anchors, self, c.documentBase(base))
	p.Links = links
	p.Truncated = !allTerms || !allLinks || c.title.cut || len(p.Text) < len(text)
	return p, nil
}

// anchor is one link as it stands in the document.
type anchor struct {
	ref  string
	text foldedText
}

// collector reads a document as a stream of tags. It builds no tree: the time that takes depends on
// how badly the tags are nested, and nothing that is collected here depends on the tree.
type collector struct {
	title, text foldedText
	anchors     []anchor
	base        string // the first base element's href
	hasBase     bool

	inAnchor  bool   // the last of anchors is open
	hasTitle  bool   // a title element began
	raw       string // the element, if its content is not the page's text: "title", "script", …
	templates int    // open template elements; their content is not part of the document
}

func (c *collector) read(document []byte) {
	z := html.NewTokenizer(bytes.NewReader(document))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return
		case html.TextToken:
			c.readText(z.Text())
		case html.StartTagToken, html.SelfClosingTagToken: // HTML takes <script/> for a start tag
			c.readStart(z)
		case html.EndTagToken:
			name, _ := z.TagName()
			c.readEnd(string(name))
		}
	}
}

func (c *collector) readText(text []byte) {
	switch {
	case c.templates > 0:
	case c.raw == "title":
		c.title.add(text)
	case c.raw == "":
		c.text.add(text)
		if c.inAnchor {
			c.anchors[len(c.anchors)-1].text.add(text)
		}
	}
}

func (c *collector) readStart(z *html.Tokenizer) {
	tag, hasAttributes := z.TagName()
	name := string(tag)
	c.separate(name)
	switch name {
	case "script", "style", "textarea", "iframe", "noembed":
		c.raw = name
	case "noscript", "noframes": // what a reader without scripts sees
		z.NextIsNotRawText()
	case "template":
		c.templates++
	case "title":
		c.raw = name
		if c.hasTitle { // only the first one counts: others belong to pictures
			c.raw = "title again"
		}
		c.hasTitle = true
	case "a", "area", "base", "img":
		if c.templates == 0 {
			c.readReference(name, attributes(z, hasAttributes))
		}
	}
}

func (c *collector) readReference(name string, attr map[string]string) {
	href, hasHref := attr["href"]
	switch name {
	case "base":
		if hasHref && !c.hasBase {
			c.base, c.hasBase = href, true
		}
	case "img":
		if c.inAnchor {
			text := &c.anchors[len(c.anchors)-1].text
			text.add([]byte(attr["alt"]))
			text.separate()
		}
	default: // a or area
		if name == "a" {
			c.endAnchor() // links do not nest
		}
		if !hasHref {
			return
		}
		link := anchor{ref: href, text: foldedText{max: MaxAnchor}}
		if name == "area" {
			link.text.add([]byte(attr["alt"]))
			c.insert(link)
			return
		}
		c.anchors = append(c.anchors, link)
		c.inAnchor = true
	}
}

// insert adds a complete link, before the open one if there is one.
func (c *collector) insert(link anchor) {
	c.anchors = append(c.anchors, link)
	if n := len(c.anchors); c.inAnchor {
		c.anchors[n-1], c.anchors[n-2] = c.anchors[n-2], c.anchors[n-1]
	}
}

func (c *collector) readEnd(name string) {
	c.separate(name)
	switch name {
	case "a":
		c.endAnchor()
	case "template":
		c.templates = max(0, c.templates-1)
	case "title", "script", "style", "textarea", "iframe", "noembed":
		c.raw = ""
	}
}

func (c *collector) endAnchor() { c.inAnchor = false }

// separate makes the tags of all but inline elements the end of a word.
func (c *collector) separate(name string) {
	if inline[name] {
		return
	}
	c.text.separate()
	if c.inAnchor {
		c.anchors[len(c.anchors)-1].text.separate()
	}
}

// documentBase returns what the document's relative links are relative to; document is its own URL.
func (c *collector) documentBase(document *url.URL) *url.URL {
	if !c.hasBase {
		return document
	}
	id, err := NormalizeURL(document, c.base)
	if err != nil {
		return document
	}
	base, err := url.Parse(id)
	if err != nil {
		return document
	}
	return base
}

// attributes returns the attributes of the tag that z is at; the first of each name counts.
func attributes(z *html.Tokenizer, more bool) map[string]string {
	attr := make(map[string]string)
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		if _, twice := attr[string(key)]; !twice {
			attr[string(key)] = string(value)
		}
	}
	return attr
}
