package search

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/percolator"
)

// Limits of what the page about a document lists.
const (
	maxMembers  = 100
	maxInLinks  = 100
	maxVersions = 20
)

// documentPage is what document.html shows.
type documentPage struct {
	Query       string
	URL, Title  string
	Stored      string // the page as it was crawled
	Hash        string
	Canonical   string // URL
	IsCanonical bool
	Redirect    *reference
	Rank        string // "" if it is no document, or its rank is not known yet
	Members     []reference
	MoreMembers int
	InLinks     []inLink
	MoreInLinks int
	Versions    []version
	TooOld      bool // older versions are beyond the retention
}

// reference is a URL and the page about it.
type reference struct {
	URL, Document string
	Canonical     bool
}

type inLink struct {
	reference
	Anchors []string
}

func refer(url string) reference { return reference{URL: url, Document: documentLink(url)} }

// document is the page about one URL, whether it is canonical or not.
func (s *Server) document(w http.ResponseWriter, r *http.Request) {
	url, err := page.Identity(r.URL.Query().Get("url"))
	if err != nil {
		s.notFound(w, r)
		return
	}
	p := &documentPage{URL: url, Stored: storedLink(url, "")}
	var at time.Time
	err = s.view(r.Context(), func(ctx context.Context, snap *percolator.Snapshot) error {
		at = snap.StartTimestamp().Time()
		return errors.Join(p.readDocument(ctx, snap), p.readInLinks(ctx, snap))
	})
	if err == nil {
		p.Versions, p.TooOld, err = s.history(r.Context(), url, maxVersions)
	}
	switch {
	case err != nil:
		s.fail(w, r, err)
	case len(p.Versions) == 0 && len(p.InLinks) == 0:
		s.say(w, http.StatusNotFound, "Not in the crawl", "This URL was not crawled, and no page that was crawled links to it.")
	default:
		s.show(w, http.StatusOK, "document.html", struct {
			*documentPage
			At time.Time
		}{p, at})
	}
}

// readDocument reads what is known of the URL and its cluster.
func (p *documentPage) readDocument(ctx context.Context, r percolator.Scanner) error {
	f := index.Fetch(ctx, r,
		index.Derived.Cell(p.URL), index.Redirect.Cell(p.URL), index.AccountOf(p.URL).Cell(index.Block(p.URL)), index.Hash.Cell(p.URL))
	p.Title = index.Get(f, index.Derived, p.URL).Title
	if redirect := index.Get(f, index.Redirect, p.URL); redirect != "" {
		to := refer(redirect)
		p.Redirect = &to
	}
	if rank := index.Get(f, index.AccountOf(p.URL), index.Block(p.URL)).Rank; rank != 0 {
		p.Rank = index.FormatRank(rank)
	}
	if p.Hash = index.Get(f, index.Hash, p.URL); f.Err() != nil || p.Hash == "" {
		return f.Err()
	}
	return p.readCluster(ctx, r)
}

func (p *documentPage) readCluster(ctx context.Context, r percolator.Scanner) (err error) {
	if p.Canonical, err = index.Canonical.GetOr(ctx, r, p.Hash, ""); err != nil {
		return err
	}
	p.IsCanonical = p.Canonical == p.URL
	all, err := index.Members(ctx, r, p.Hash)
	if err != nil {
		return err
	}
	members := all[p.Hash]
	for _, url := range members[:min(len(members), maxMembers)] {
		m := refer(url)
		m.Canonical = url == p.Canonical
		p.Members = append(p.Members, m)
	}
	p.MoreMembers = len(members) - len(p.Members)
	return nil
}

// readInLinks reads who links to the URL, directly or by a redirect.
func (p *documentPage) readInLinks(ctx context.Context, r percolator.Scanner) error {
	all, err := index.CollectInLinks(ctx, r, p.URL)
	if err != nil {
		return err
	}
	in := all[0]
	sources := slices.Sorted(maps.Keys(in))
	for _, source := range sources[:min(len(sources), maxInLinks)] {
		p.InLinks = append(p.InLinks, inLink{refer(source), in[source]})
	}
	p.MoreInLinks = len(sources) - len(p.InLinks)
	return nil
}
