package search

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/percolator"
)

// Limits of one query, so that none is slow.
const (
	maxTerms   = 8      // further terms are ignored
	maxMatches = 10_000 // documents looked at for one term; the rest is ignored
	maxTitles  = 100    // of the best matches, whose titles are read to order them

	titleScore = 2 // what a term in the title contributes to the score
)

// match is a document that has all terms of a query.
type match struct {
	URL   string
	Rank  int64 // PageRank in units
	score float64
}

// found is the answer to a query.
type found struct {
	Matches []match // best first
	Partial bool    // there may be more
	Terms   []termCount
}

// termCount is how many documents have one term of a query.
type termCount struct {
	Term, URL string // the address of a search for it alone
	Pages     int
	Partial   bool
}

// find looks the terms of a query up and returns the documents that have all of them.
func find(ctx context.Context, r percolator.Scanner, query string) (found, error) {
	terms := page.Terms(query)
	slices.Sort(terms)
	terms = slices.Compact(terms)
	if len(terms) == 0 {
		return found{}, nil
	}
	terms = terms[:min(len(terms), maxTerms)]
	var (
		f      found
		scores map[string]float64
	)
	for _, term := range terms {
		frequencies, partial, err := index.Lookup(ctx, r, term, maxMatches)
		if err != nil {
			return f, err
		}
		f.Partial = f.Partial || partial
		f.Terms = append(f.Terms, termCount{term, link("/", "q", term), len(frequencies), partial})
		scores = intersect(scores, frequencies)
	}
	if len(scores) == 0 {
		return f, nil
	}
	if err := f.order(ctx, r, scores); err != nil {
		return f, err
	}
	return f, f.preferTitles(ctx, r, terms)
}

// intersect keeps the documents that have the next term as well, and adds what the term contributes
// to their score: the tenth occurrence says less than the first. scores is nil before the first
// term.
func intersect(scores map[string]float64, frequencies map[string]int) map[string]float64 {
	out := map[string]float64{}
	for url, n := range frequencies {
		if before, ok := scores[url]; ok || scores == nil {
			out[url] = before + 1 + math.Log(float64(n))
		}
	}
	return out
}

// order adds the ranks to the scores and sorts. Ranks change often and by little; so they are not
// copied to the serving tables.
func (f *found) order(ctx context.Context, r percolator.Scanner, scores map[string]float64) error {
	urls := slices.Collect(maps.Keys(scores))
	accounts, err := index.ReadAccounts(ctx, r, urls...)
	if err != nil {
		return err
	}
	for i, url := range urls {
		f.Matches = append(f.Matches, match{URL: url, Rank: accounts[i].Rank, score: scores[url] + prominence(accounts[i].Rank)})
	}
	slices.SortFunc(f.Matches, better)
	return nil
}

func better(a, b match) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.URL, b.URL)) }

// preferTitles orders the best matches again: a document whose title has the terms is about them.
func (f *found) preferTitles(ctx context.Context, r percolator.Scanner, terms []string) error {
	best := f.Matches[:min(len(f.Matches), maxTitles)]
	contents := index.Fetch(ctx, r, contentCells(best)...)
	for i := range best {
		title := page.Terms(index.Get(contents, index.ServedContent, best[i].URL).Title)
		for _, term := range terms {
			if slices.Contains(title, term) {
				best[i].score += titleScore
			}
		}
	}
	slices.SortFunc(best, better)
	return contents.Err()
}

// prominence is what a rank contributes to the score: 0 for a document that no other links to, or
// whose rank is not known yet.
func prominence(rank int64) float64 {
	return math.Log(float64(max(rank, index.Base)) / float64(index.Base))
}
