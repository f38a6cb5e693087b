package search

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Limits of what the start page says.
const (
	maxSurveyed  = 10_000 // pages that are counted
	maxRanked    = 1000   // of these, whose ranks are compared
	shownTop     = 6
	shownQueries = 8
	queryTerms   = 2

	overviewLasts   = 10 * time.Second
	overviewTimeout = 2 * time.Second
)

// overview is what the start page says about the index.
type overview struct {
	Pages    int // that can be found
	Sites    int // hosts of these
	More     bool
	Changed  time.Time // when one of these changed last
	Examples []example
	Top      []result
}

// example is a query that finds something.
type example struct{ Query, URL string }

// overviews keeps the last overview for a while: however often the start page is loaded, the index
// is surveyed once in overviewLasts.
type overviews struct {
	mu   sync.Mutex // held by who surveys
	last atomic.Pointer[overview]
	at   time.Time // of last
}

// overview surveys the index, unless it has lately. Without an answer in time, or while others are
// being answered, it is the last one; nil: there is none.
func (s *Server) overview(ctx context.Context) *overview {
	o := &s.overviews
	if !o.mu.TryLock() { // another request surveys the index
		return o.last.Load()
	}
	defer o.mu.Unlock()
	last := o.last.Load()
	if last != nil && time.Since(o.at) < overviewLasts {
		return last
	}
	select {
	case s.views <- struct{}{}:
		defer func() { <-s.views }()
	default:
		return last
	}
	ctx, cancel := context.WithTimeout(ctx, overviewTimeout)
	defer cancel()
	var next overview
	err := s.client.View(ctx, next.survey)
	if err != nil {
		s.log.Warn("surveying the index failed", "reason", err)
		return last
	}
	o.last.Store(&next)
	o.at = time.Now()
	return &next
}

// survey counts what can be found, and reads the pages of the highest rank.
func (o *overview) survey(ctx context.Context, r *percolator.Snapshot) error {
	var urls []string
	var changed tso.Timestamp
	sites := map[string]bool{}
	for e, err := range r.Scan(ctx, index.Serving, percolator.All(), index.Served.Name) {
		if err != nil {
			return err
		}
		if len(urls) == maxSurveyed {
			o.More = true
			break
		}
		urls, changed = append(urls, e.Cell.Row), max(changed, e.CommitTS)
		if u, err := url.Parse(e.Cell.Row); err == nil {
			sites[u.Host] = true
		}
	}
	if o.Pages, o.Sites = len(urls), len(sites); o.Pages == 0 {
		return nil
	}
	o.Changed = changed.Time()
	top, err := highest(ctx, r, urls[:min(len(urls), maxRanked)])
	if err != nil {
		return err
	}
	f := index.Fetch(ctx, r, contentCells(top)...)
	var titles [][]string
	for _, m := range top {
		content := index.Get(f, index.ServedContent, m.URL)
		titles = append(titles, page.Terms(content.Title))
		if len(o.Top) < shownTop {
			o.Top = append(o.Top, result{URL: m.URL, Stored: storedLink(m.URL, ""), Title: page.Highlight(cmp.Or(content.Title, m.URL), ""), Rank: index.FormatRank(m.Rank)})
		}
	}
	o.addExamples(titles)
	return f.Err()
}

// highest returns the documents of the highest ranks, enough for the examples.
func highest(ctx context.Context, r *percolator.Snapshot, urls []string) ([]match, error) {
	accounts, err := index.ReadAccounts(ctx, r, urls...)
	if err != nil {
		return nil, err
	}
	list := make([]match, len(urls))
	for i, u := range urls {
		list[i] = match{URL: u, Rank: accounts[i].Rank}
	}
	slices.SortFunc(list, func(a, b match) int { return cmp.Or(cmp.Compare(b.Rank, a.Rank), cmp.Compare(a.URL, b.URL)) })
	return list[:min(len(list), 3*shownQueries)], nil
}

func contentCells(matches []match) []percolator.Cell {
	cells := make([]percolator.Cell, len(matches))
	for i, m := range matches {
		cells[i] = index.ServedContent.Cell(m.URL)
	}
	return cells
}

// addExamples makes queries of the terms of titles: all of one are in that document, so it finds
// something. Terms that other titles have, such as the name of the site, say little.
func (o *overview) addExamples(titles [][]string) {
	titlesWith := map[string]int{}
	for _, terms := range titles {
		for _, term := range unique(terms) {
			titlesWith[term]++
		}
	}
	for _, terms := range titles {
		rare := unique(terms)
		slices.SortStableFunc(rare, func(a, b string) int {
			return cmp.Or(cmp.Compare(titlesWith[a], titlesWith[b]), cmp.Compare(len(b), len(a)))
		})
		rare = rare[:min(len(rare), queryTerms)]
		query := strings.Join(slices.DeleteFunc(unique(terms), func(t string) bool { return !slices.Contains(rare, t) }), " ")
		known := slices.ContainsFunc(o.Examples, func(e example) bool { return e.Query == query })
		if query != "" && !known && len(query) <= maxQuery && len(o.Examples) < shownQueries {
			o.Examples = append(o.Examples, example{query, link("/", "q", query)})
		}
	}
}

// unique are the terms, each once, in the order of their first appearance.
func unique(terms []string) (once []string) {
	for _, term := range terms {
		if !slices.Contains(once, term) {
			once = append(once, term)
		}
	}
	return once
}
