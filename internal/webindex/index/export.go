package index

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// publish makes the serving tables right for one URL: a canonical URL is there with its words and
// the anchor texts of its whole cluster, any other URL is not. Only this observer writes these
// tables, and only the rows of its own URL.
func publish(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
	url := ch.Cell.Row
	// One request for each of the two rows; the typed reads below are answered by the transaction's
	// cache.
	f := Fetch(ctx, tx,
		Served.Cell(url), ServedContent.Cell(url), ServedTerms.Cell(url), ServedAnchors.Cell(url),
		Hash.Cell(url), Derived.Cell(url), Terms.Cell(url), Anchors.Cell(url))
	hash := Get(f, Hash, url)
	if err := f.Err(); err != nil {
		return err
	}
	served, err := Served.GetForUpdate(ctx, tx, url)
	if err != nil && !errors.Is(err, percolator.ErrNotFound) {
		return err
	}
	var c cluster
	if hash != "" {
		if c, err = readCluster(ctx, tx, hash); err != nil {
			return err
		}
	}
	if c.canonical != url {
		return withdraw(ctx, tx, url, served)
	}
	if err := publishContent(ctx, tx, f, url, hash, served); err != nil {
		return err
	}
	return publishAnchors(ctx, tx, url, c.members)
}

// withdraw removes the URL from the serving tables, if it is there.
func withdraw(ctx context.Context, tx *percolator.Txn, url, served string) error {
	if served == "" {
		return nil
	}
	terms, err := ServedTerms.Get(ctx, tx, url)
	if err != nil {
		return err
	}
	return errors.Join(
		movePostings(tx, url, terms, nil),
		Served.Delete(tx, url),
		ServedContent.Delete(tx, url),
		ServedTerms.Delete(tx, url),
		ServedAnchors.Delete(tx, url),
	)
}

// publishContent brings title, text and postings up to date.
func publishContent(ctx context.Context, tx *percolator.Txn, f *Fetched, url, hash, served string) error {
	content, err := Derived.Get(ctx, tx, url)
	if err != nil {
		return err
	}
	terms, err := Terms.Get(ctx, tx, url)
	if err != nil {
		return err
	}
	oldContent, oldTerms := Get(f, ServedContent, url), Get(f, ServedTerms, url)
	if err := f.Err(); err != nil {
		return err
	}
	if served == hash && oldContent == content && maps.Equal(oldTerms, terms) {
		return nil
	}
	return errors.Join(
		movePostings(tx, url, oldTerms, terms),
		Served.Set(tx, url, hash),
		ServedContent.Set(tx, url, content),
		ServedTerms.Set(tx, url, terms),
	)
}

// movePostings writes the difference between two versions of a document's terms.
func movePostings(tx *percolator.Txn, url string, before, after map[string]int) error {
	for term, n := range after {
		if before[term] != n {
			if err := Frequency(url).Set(tx, PostingRow(term, url), int64(n)); err != nil {
				return err
			}
		}
	}
	for term := range before {
		if after[term] == 0 {
			if err := Frequency(url).Delete(tx, PostingRow(term, url)); err != nil {
				return err
			}
		}
	}
	return nil
}

// publishAnchors collects the anchor texts of all members: what is said about a duplicate is said
// about its canonical URL.
func publishAnchors(ctx context.Context, tx *percolator.Txn, url string, members []string) error {
	anchors, err := clusterAnchors(ctx, tx, members)
	if err != nil {
		return err
	}
	old, err := ServedAnchors.GetOr(ctx, tx, url, nil)
	if err != nil {
		return err
	}
	if slices.Equal(old, anchors) {
		return nil
	}
	return setOrDelete(tx, ServedAnchors, url, anchors, len(anchors) == 0)
}

// clusterAnchors adds up the anchors of several URLs.
func clusterAnchors(ctx context.Context, r percolator.Reader, members []string) ([]Anchor, error) {
	lists, err := Values(ctx, r, Anchors, members)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, list := range lists {
		for _, a := range list {
			counts[a.Text] += a.Links
		}
	}
	return rankAnchors(counts), nil
}
