// Package verify checks a web index: it recomputes everything from the raw responses, in one
// snapshot, and compares.
//
// What a single page says is decided by package page, for the index and for this check alike.
// Everything behind that (clusters, ranks, canonical URLs, anchors, the serving tables) is computed
// here once more and in another way: not by following changes, but from all pages at once.
//
// Ranks are right if they are close to what power iteration finds: see [index.Tolerance]. What is
// derived from ranks – who is canonical, which rank is served – has to be exactly what follows
// from the stored ones; and so has the account of what documents have passed on and received.
package verify

import (
	"context"

	"github.com/gopercolator/percolator/percolator"
)

// check is one verification. The passes over the tables follow each other; each reads its table
// once, in key order, and holds one row. What has to be kept is the graph of pages and links,
// without any text of a page.
type check struct {
	reader percolator.Reader
	web    *web
	report func(Difference)
	found  int
}

// Run compares the index with what the raw responses say, all in the snapshot of reader, and calls
// report for every difference. It returns how many there are. The error is for a check that could
// not be completed.
//
// An index on which observers are still at work differs: wait for them first. Memory grows with the
// number of URLs and links (a few hundred bytes for a link), not with the pages' text.
func Run(ctx context.Context, reader percolator.Reader, report func(Difference)) (int, error) {
	c := &check{reader: reader, web: newWeb(), report: report}
	for _, pass := range []func(context.Context) error{
		c.documents,
		c.accounts, // completes web; the others compare with it
		c.ranks,
		c.clusters,
		c.links,
		c.serving,
		c.postings,
	} {
		if err := pass(ctx); err != nil {
			return c.found, err
		}
	}
	return c.found, nil
}

// compare reports a difference between two values that are printed as they are.
func (c *check) compare(what, row, want, got string) {
	if want != got {
		c.differ(what, row, want, got)
	}
}

func (c *check) differ(what, row, want, got string) {
	c.found++
	c.report(Difference{What: what, Row: row, Want: want, Got: got})
}
