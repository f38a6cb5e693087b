package search

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/percolator"
)

// maxStoredLinks is how many links of a stored page are shown.
const maxStoredLinks = 100

// storedPage is what stored.html shows: the text of a page as it was crawled, and where it leads.
type storedPage struct {
	Query      string
	URL, Title string
	Heading    []page.Fragment
	Document   string // the page about it
	Change     string // the form that changes it; "": there is none
	Lines      [][]page.Fragment
	Links      []storedReference
	MoreLinks  int
	At         time.Time // when it was stored
}

// storedReference is a link of a stored page.
type storedReference struct{ URL, Stored, Text string }

// storedLink is the address of a stored page, with the words of a query marked.
func storedLink(u, query string) string {
	if query == "" {
		return link("/stored", "url", u)
	}
	return link("/stored", "url", u, "q", query)
}

// errNoDocument says that a URL was crawled and is not a page that can be shown.
var errNoDocument = errors.New("not a document")

// pageOf returns which page is asked for, and the query that the reader came from. false: the
// request has had its answer, as it names none.
func (s *Server) pageOf(w http.ResponseWriter, r *http.Request) (u, query string, ok bool) {
	u, err := page.Identity(r.URL.Query().Get("url"))
	query = r.URL.Query().Get("q")
	if err != nil || len(query) > maxQuery {
		s.notFound(w, r)
		return "", "", false
	}
	return u, query, true
}

// stored shows a page from the store: its own host may be gone. A redirect leads on to its target.
func (s *Server) stored(w http.ResponseWriter, r *http.Request) {
	u, query, ok := s.pageOf(w, r)
	if !ok {
		return
	}
	p := &storedPage{Query: query, URL: u, Document: documentLink(u), Change: s.changeLink(u, query)}
	var redirect string
	err := s.view(r.Context(), func(ctx context.Context, snap *percolator.Snapshot) (err error) {
		redirect, err = p.read(ctx, snap)
		return err
	})
	switch {
	case redirect != "":
		w.Header().Set("Location", storedLink(redirect, query))
		w.WriteHeader(http.StatusSeeOther)
	case errors.Is(err, percolator.ErrNotFound), errors.Is(err, errNoDocument):
		s.notStored(w, u, query)
	case err != nil:
		s.fail(w, r, err)
	default:
		s.show(w, http.StatusOK, "stored.html", p)
	}
}

func (s *Server) notStored(w http.ResponseWriter, u, query string) {
	s.show(w, http.StatusNotFound, "message.html", message{
		Query: query, Title: "Not stored", Text: "The crawl has no page at " + u + ".", Link: documentLink(u), LinkText: "What is known of it",
	})
}

// read reads the page, or where its URL redirects to.
func (p *storedPage) read(ctx context.Context, r *percolator.Snapshot) (redirect string, err error) {
	f := index.Fetch(ctx, r, index.Response.Cell(p.URL), index.Redirect.Cell(p.URL), index.Derived.Cell(p.URL), index.OutLinks.Cell(p.URL))
	if redirect = index.Get(f, index.Redirect, p.URL); redirect != "" || f.Err() != nil {
		return redirect, f.Err()
	}
	capture, err := readCapture(ctx, r, p.URL)
	if err != nil {
		return "", err
	}
	for line := range page.Lines(capture.Header, capture.Body) {
		p.Lines = append(p.Lines, page.Highlight(line, p.Query))
	}
	p.Title = index.Get(f, index.Derived, p.URL).Title
	p.Heading = page.Highlight(cmp.Or(p.Title, p.URL), p.Query)
	p.addLinks(index.Get(f, index.OutLinks, p.URL))
	p.At = r.StartTimestamp().Time()
	return "", f.Err()
}

// readCapture reads a page that can be shown.
func readCapture(ctx context.Context, r percolator.Reader, u string) (*index.Capture, error) {
	stored, err := index.Response.Get(ctx, r, u)
	if err != nil {
		return nil, err
	}
	capture, err := index.DecodeCapture(stored)
	if err == nil && !capture.IsDocument() {
		err = errNoDocument
	}
	return capture, err
}

func (p *storedPage) addLinks(links []page.Link) {
	for _, l := range links[:min(len(links), maxStoredLinks)] {
		ref := storedReference{URL: l.Target, Stored: storedLink(l.Target, ""), Text: l.Target}
		if len(l.Anchors) > 0 {
			ref.Text = l.Anchors[0]
		}
		p.Links = append(p.Links, ref)
	}
	p.MoreLinks = len(links) - len(p.Links)
}
