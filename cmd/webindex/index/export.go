package index

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// publish makes the serving tables right for some URLs: a canonical URL is there with its words and
// the anchor texts of its whole cluster, any other URL is not. Only this observer writes these
// tables, and of each URL only its row and what segments say of it.
func publish(ctx context.Context, tx *percolator.Txn, changes []observers.Change) error {
	list, err := readPublished(ctx, tx, rowsOf(changes))
	if err != nil {
		return err
	}
	p := Postings{}
	for _, d := range list {
		// Of two runs for a URL one fails: the other may know better.
		if _, err := Served.GetForUpdate(ctx, tx, d.url); err != nil && !errors.Is(err, percolator.ErrNotFound) {
			return err
		}
		if err := d.write(tx, p); err != nil {
			return err
		}
	}
	return p.write(tx, Segment{ID: tx.StartTimestamp()})
}

// version is what the search page shows of a document; the zero version is none.
type version struct {
	hash    string
	content Content
	terms   map[string]int
	anchors []Anchor
}

// published is a URL with what is shown of it, and what is to be shown.
type published struct {
	url        string
	was, wants version
}

// readPublished reads all that decides what is shown of some URLs, in a request for each table and
// one for each step along redirects.
func readPublished(ctx context.Context, tx *percolator.Txn, urls []string) ([]published, error) {
	var cells []percolator.Cell
	for _, url := range urls {
		cells = append(cells, Served.Cell(url), ServedContent.Cell(url), ServedTerms.Cell(url), ServedAnchors.Cell(url),
			Hash.Cell(url), Derived.Cell(url), Terms.Cell(url))
	}
	f := Fetch(ctx, tx, cells...)
	list, hashes := make([]published, len(urls)), make([]string, len(urls))
	for i, url := range urls {
		list[i] = published{url: url, was: version{Get(f, Served, url), Get(f, ServedContent, url), Get(f, ServedTerms, url), Get(f, ServedAnchors, url)}}
		hashes[i] = Get(f, Hash, url)
	}
	if f.Err() != nil {
		return nil, f.Err()
	}
	clusters, err := readClusters(ctx, tx, hashes)
	if err != nil {
		return nil, err
	}
	anchors, err := clusterAnchors(ctx, tx, clusters)
	if err != nil {
		return nil, err
	}
	for i, url := range urls {
		if hashes[i] != "" && clusters[i].canonical == url {
			list[i].wants = version{hashes[i], Get(f, Derived, url), Get(f, Terms, url), anchors[i]}
		}
	}
	return list, f.Err()
}

// write writes the difference, that of the terms into p.
func (d *published) write(tx *percolator.Txn, p Postings) error {
	p.move(d.url, d.was.terms, d.wants.terms)
	gone := d.wants.hash == ""
	other := gone != (d.was.hash == "")
	var errs []error
	if d.was.hash != d.wants.hash {
		errs = append(errs, setOrDelete(tx, Served, d.url, d.wants.hash, gone))
	}
	if other || d.was.content != d.wants.content {
		errs = append(errs, setOrDelete(tx, ServedContent, d.url, d.wants.content, gone))
	}
	if other || !maps.Equal(d.was.terms, d.wants.terms) {
		errs = append(errs, setOrDelete(tx, ServedTerms, d.url, d.wants.terms, gone))
	}
	if !slices.Equal(d.was.anchors, d.wants.anchors) {
		errs = append(errs, setOrDelete(tx, ServedAnchors, d.url, d.wants.anchors, len(d.wants.anchors) == 0))
	}
	return errors.Join(errs...)
}

// clusterAnchors adds up the anchor texts of all members of each cluster: what is said about a
// duplicate is said about its canonical URL.
func clusterAnchors(ctx context.Context, r percolator.Scanner, clusters []cluster) ([][]Anchor, error) {
	var members []string
	for _, c := range clusters {
		members = append(members, c.members...)
	}
	in, err := CollectInLinks(ctx, r, members...)
	if err != nil {
		return nil, err
	}
	lists := make([][]Anchor, len(clusters))
	for i, c := range clusters {
		counts := map[string]int{}
		for _, links := range in[:len(c.members)] {
			links.count(counts)
		}
		in, lists[i] = in[len(c.members):], rankAnchors(counts)
	}
	return lists, nil
}
