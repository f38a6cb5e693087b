package search

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/percolator"
)

const (
	perPage      = 10
	shownAnchors = 5
	snippetRunes = 240
	maxQuery     = 500 // bytes
)

// resultsPage is what results.html shows.
type resultsPage struct {
	Query          string
	Total          int
	Partial        bool
	Milliseconds   int64
	From           int // number of the first result on this page, from 1
	Results        []result
	Terms          []termCount // how often each occurs, where nothing has all of them
	Previous, Next string      // links; "" if there is no such page
	First, Last    string      // links, of a page beyond the last
	Pages          int         // of results
	Overview       *overview   // of the start page; nil: not known
	Changes        bool        // pages can be changed
	Changed        string      // URL of the page that was changed
}

type result struct {
	URL, Document string
	Stored        string // the page as it was crawled
	Change        string // the form that changes it; "": there is none
	Title         []page.Fragment
	Snippet       []page.Fragment
	Anchors       []index.Anchor
	More          int // anchors that are not shown
	Rank          string
}

// results is the start page and the answer to a query.
func (s *Server) results(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query().Get("q")
	number, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil || number < 1 {
		number = 1
	}
	if len(query) > maxQuery {
		s.say(w, http.StatusBadRequest, "Too long", "A query has at most 500 bytes.")
		return
	}
	if strings.TrimSpace(query) == "" {
		s.show(w, http.StatusOK, "results.html", &resultsPage{Overview: s.overview(r.Context()), Changes: s.changes != nil})
		return
	}
	p, err := s.search(r.Context(), query, number)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.show(w, http.StatusOK, "results.html", p)
}

// search answers a query from one snapshot, so the results belong together however many
// transactions commit meanwhile.
func (s *Server) search(ctx context.Context, query string, number int) (*resultsPage, error) {
	start := time.Now()
	p := &resultsPage{Query: query}
	if len(page.Terms(query)) == 0 {
		return p, nil
	}
	err := s.view(ctx, func(ctx context.Context, snap *percolator.Snapshot) error { return s.answer(ctx, snap, p, number) })
	p.Milliseconds = time.Since(start).Milliseconds()
	return p, err
}

// answer reads the results of p's query.
func (s *Server) answer(ctx context.Context, snap *percolator.Snapshot, p *resultsPage, number int) error {
	f, err := find(ctx, snap, p.Query)
	if err != nil {
		return err
	}
	first := min((min(number, len(f.Matches)+1)-1)*perPage, len(f.Matches))
	last := min(first+perPage, len(f.Matches))
	p.Total, p.Partial, p.From, p.Terms = len(f.Matches), f.Partial, first+1, f.Terms
	p.Pages = (p.Total + perPage - 1) / perPage
	numbered := func(n int) string { return link("/", "q", p.Query, "page", strconv.Itoa(n)) }
	if number > p.Pages {
		p.First, p.Last = numbered(1), numbered(p.Pages)
	} else if number > 1 {
		p.Previous = numbered(number - 1)
	}
	if last < len(f.Matches) {
		p.Next = numbered(number + 1)
	}
	p.Results, err = describe(ctx, snap, p.Query, f.Matches[first:last])
	for i := range p.Results {
		p.Results[i].Change = s.changeLink(p.Results[i].URL, p.Query)
	}
	return err
}

// describe reads what is shown of each match.
func describe(ctx context.Context, r percolator.Reader, query string, matches []match) ([]result, error) {
	var cells []percolator.Cell
	for _, m := range matches {
		cells = append(cells, index.ServedContent.Cell(m.URL), index.ServedAnchors.Cell(m.URL))
	}
	f := index.Fetch(ctx, r, cells...)
	if f.Err() != nil {
		return nil, f.Err()
	}
	var out []result
	for _, m := range matches {
		content, err := index.ServedContent.Get(ctx, r, m.URL)
		if err != nil {
			return nil, err
		}
		anchors := index.Get(f, index.ServedAnchors, m.URL)
		shown := min(len(anchors), shownAnchors)
		out = append(out, result{
			URL: m.URL, Document: documentLink(m.URL), Stored: storedLink(m.URL, query), Rank: index.FormatRank(m.Rank),
			Title:   page.Highlight(cmp.Or(content.Title, m.URL), query),
			Snippet: page.Highlight(page.Snippet(content.Excerpt, query, snippetRunes), query),
			Anchors: anchors[:shown], More: len(anchors) - shown,
		})
	}
	return out, f.Err()
}

// documentLink is the address of the page about a document.
func documentLink(u string) string { return link("/document", "url", u) }

// original is the address of a page on the web, "" if its host cannot be there: the names are
// reserved (RFC 6761), as those of the bundled crawl are.
func original(u string) string {
	parsed, err := url.Parse(u)
	if err != nil {
		return ""
	}
	host := parsed.Hostname()
	switch host[strings.LastIndex(host, ".")+1:] {
	case "example", "invalid", "localhost", "test":
		return ""
	}
	return u
}

// link is a path with parameters.
func link(path string, params ...string) string {
	v := url.Values{}
	for i := 0; i < len(params); i += 2 {
		v.Set(params[i], params[i+1])
	}
	return path + "?" + v.Encode()
}
