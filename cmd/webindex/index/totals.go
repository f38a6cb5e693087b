package index

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Totals is what an index holds.
type Totals struct {
	Documents int64 `json:"documents"` // pages with status 200 and an HTML type
	Clusters  int64 `json:"clusters"`  // distinct contents among them
	Canonical int64 `json:"canonical"` // documents that the search page shows
	Links     int64 `json:"links"`     // pairs of a document and another URL that it links to
	Redirects int64 `json:"redirects"`
}

// CountTotals counts in one snapshot.
func CountTotals(ctx context.Context, r percolator.Reader) (_ *Totals, err error) {
	var t Totals
	count := func(table string, see func(e percolator.Entry), columns ...string) {
		for e, scanErr := range r.Scan(ctx, table, percolator.All(), columns...) {
			if scanErr != nil {
				err = errors.Join(err, scanErr)
				return
			}
			see(e)
		}
	}
	count(Documents, func(e percolator.Entry) {
		if e.Cell.Column == Hash.Name {
			t.Documents++
		} else {
			t.Redirects++
		}
	}, Hash.Name, Redirect.Name)
	last := ""
	count(Clusters, func(e percolator.Entry) {
		if e.Cell.Column == Canonical.Name {
			t.Canonical++
		}
		if _, member := MemberURL(e.Cell.Column); member && e.Cell.Row != last {
			t.Clusters++
			last = e.Cell.Row
		}
	})
	count(Links, func(e percolator.Entry) {
		if _, redirect := LinkSource(e.Cell.Column); !redirect {
			t.Links++
		}
	})
	if err != nil {
		return nil, err
	}
	return &t, nil
}

// Latencies says, for every document that became searchable with its present content after the time
// since, how long that took: from the commit of the transaction that loaded the page to the commit
// of the one that put it into the serving tables. Both times are commit timestamps, so the oracle's
// clock is the only clock. The result is sorted.
//
// Documents that are not canonical never become searchable themselves and are left out; so are
// pages that were loaded again with other headers and the same content, which were searchable all
// along.
func Latencies(ctx context.Context, r percolator.Reader, since tso.Timestamp) ([]time.Duration, error) {
	served := r.Scan(ctx, Serving, percolator.All(), Served.Name)
	loaded, stop := iter.Pull2(r.Scan(ctx, Documents, percolator.All(), Digest.Name))
	defer stop()
	var out []time.Duration
	load, err, more := loaded()
	for e, scanErr := range served { // both scans are in the order of URLs
		if scanErr != nil {
			return nil, scanErr
		}
		for more && err == nil && load.Cell.Row < e.Cell.Row {
			load, err, more = loaded()
		}
		if err != nil {
			return nil, err
		}
		if more && load.Cell.Row == e.Cell.Row && e.CommitTS > since && e.CommitTS > load.CommitTS {
			out = append(out, e.CommitTS.Sub(load.CommitTS))
		}
	}
	slices.Sort(out)
	return out, nil
}
