package index

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"

	"github.com/gopercolator/percolator/internal/webindex/page"
)

// facts are what a captured response says, by itself, about its URL.
type facts struct {
	hash     string // the cluster; "" if this is no document
	redirect string // "" if this is no redirect
	content  Content
	terms    map[string]int
	links    []page.Link
}

// process is the first observer: a response was stored, replaced or deleted. It reads the page once
// and writes, in one transaction, what follows from the page alone: its cluster, its words, and its
// links, which are stored with their targets. Only differences to the previous version of the page
// are written.
func process(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
	url := ch.Cell.Row
	after, err := interpret(url, ch)
	if err != nil {
		return err
	}
	before, err := recall(ctx, tx, url)
	if err != nil {
		return err
	}
	if err := moveCluster(ctx, tx, url, before, after); err != nil {
		return err
	}
	if err := moveRedirect(tx, url, before.redirect, after.redirect); err != nil {
		return err
	}
	if err := moveLinks(tx, url, before.links, after.links); err != nil {
		return err
	}
	return resetInLinks(tx, url, before, after)
}

// interpret says what the response means.
func interpret(url string, ch observers.Change) (facts, error) {
	if ch.Deleted {
		return facts{}, nil
	}
	capture, err := DecodeCapture(ch.Value)
	if err != nil {
		return facts{}, fmt.Errorf("%s: %w", url, err)
	}
	if target, ok := page.RedirectTarget(url, capture.Status, capture.Header); ok {
		return facts{redirect: target}, nil
	}
	if !capture.IsDocument() {
		return facts{}, nil
	}
	p, err := page.Parse(url, capture.Header, capture.Body)
	if err != nil {
		return facts{}, fmt.Errorf("%s: %w", url, err)
	}
	return facts{hash: p.Cluster, content: NewContent(p), terms: p.Terms, links: p.Links}, nil
}

// recall reads what earlier runs have written for the URL, and the anchors, which moveCluster may
// need.
func recall(ctx context.Context, tx *percolator.Txn, url string) (facts, error) {
	f := Fetch(ctx, tx,
		Hash.Cell(url), Redirect.Cell(url), Derived.Cell(url), Terms.Cell(url), OutLinks.Cell(url), Anchors.Cell(url))
	known := facts{
		hash: Get(f, Hash, url), redirect: Get(f, Redirect, url),
		content: Get(f, Derived, url), terms: Get(f, Terms, url), links: Get(f, OutLinks, url),
	}
	return known, f.Err()
}

// moveCluster takes the document out of its old cluster and into the new one. The document and its
// entry change in the same transaction, so no snapshot shows one without the other. The same holds
// for a canonical URL and its entry.
func moveCluster(ctx context.Context, tx *percolator.Txn, url string, before, after facts) error {
	if before.hash == after.hash {
		if before.content == after.content && maps.Equal(before.terms, after.terms) {
			return nil
		}
		return errors.Join(
			Derived.Set(tx, url, after.content),
			Terms.Set(tx, url, after.terms),
			Recluster.Notify(tx, after.hash),
		)
	}
	// The anchors may be changing just now: collectAnchors would tell the former cluster. One of us
	// fails.
	if _, err := Anchors.GetForUpdate(ctx, tx, url); err != nil && !errors.Is(err, percolator.ErrNotFound) {
		return err
	}
	if before.hash != "" {
		if err := leaveCluster(ctx, tx, url, before.hash); err != nil {
			return err
		}
	}
	if after.hash == "" {
		return errors.Join(Hash.Delete(tx, url), Derived.Delete(tx, url), Terms.Delete(tx, url))
	}
	return errors.Join(
		Hash.Set(tx, url, after.hash),
		Derived.Set(tx, url, after.content),
		Terms.Set(tx, url, after.terms),
		joinCluster(ctx, tx, url, after.hash),
	)
}

// joinCluster adds the entry of url. The first member is canonical, as in figure 2 of the paper;
// when there is a canonical URL, the two have to be compared, and the cluster is marked as shared.
func joinCluster(ctx context.Context, tx *percolator.Txn, url, hash string) error {
	if err := Member.Set(tx, Pair(hash, url), nil); err != nil {
		return err
	}
	switch _, err := Canonical.Get(ctx, tx, hash); {
	case errors.Is(err, percolator.ErrNotFound):
		return errors.Join(Canonical.Set(tx, hash, url), Export.Notify(tx, url))
	case err != nil:
		return err
	}
	return errors.Join(Shared.Set(tx, hash, nil), Recluster.Notify(tx, hash))
}

// leaveCluster removes the entry of url. A cluster never names a canonical URL that is not a
// member: if it named this one, it has none until chooseCanonical has run.
func leaveCluster(ctx context.Context, tx *percolator.Txn, url, hash string) error {
	canonical, err := Canonical.GetOr(ctx, tx, hash, "")
	if err != nil {
		return err
	}
	if canonical == url {
		if err := errors.Join(Canonical.Delete(tx, hash), Export.Notify(tx, url)); err != nil {
			return err
		}
	}
	return errors.Join(Member.Delete(tx, Pair(hash, url)), Recluster.Notify(tx, hash))
}

// moveRedirect turns the arrow of a redirect from one target to another; "" is none.
func moveRedirect(tx *percolator.Txn, url, before, after string) error {
	if before == after {
		return nil
	}
	if before != "" {
		if err := errors.Join(
			Redirect.Delete(tx, url),
			LinkRedirect(url).Delete(tx, LinkRow(before, url)),
			Relink.Notify(tx, before),
		); err != nil {
			return err
		}
	}
	if err := Reroute.Notify(tx, url); err != nil || after == "" {
		return err
	}
	return errors.Join(
		Redirect.Set(tx, url, after),
		LinkRedirect(url).Set(tx, LinkRow(after, url), nil),
		Relink.Notify(tx, after),
	)
}

// moveLinks inverts the links of the document: each is stored under its target. Targets whose link
// from here is the same as before are left alone.
func moveLinks(tx *percolator.Txn, url string, before, after []page.Link) error {
	old := make(map[string][]string, len(before))
	for _, l := range before {
		old[l.Target] = l.Anchors
	}
	same := len(before) == len(after)
	for _, l := range after {
		anchors, linked := old[l.Target]
		delete(old, l.Target)
		if linked && slices.Equal(anchors, l.Anchors) {
			continue
		}
		same = false
		if err := errors.Join(LinkAnchors(url).Set(tx, LinkRow(l.Target, url), l.Anchors), Relink.Notify(tx, l.Target)); err != nil {
			return err
		}
	}
	for target := range old {
		if err := errors.Join(LinkAnchors(url).Delete(tx, LinkRow(target, url)), Relink.Notify(tx, target)); err != nil {
			return err
		}
	}
	if same && len(old) == 0 {
		return nil
	}
	return errors.Join(setOrDelete(tx, OutLinks, url, after, len(after) == 0), revisit(tx, url))
}

// resetInLinks handles a URL that has become a document, or is none any more. Its anchor texts are
// forgotten and, of a document, collected anew; its rank is passed on, or taken back.
func resetInLinks(tx *percolator.Txn, url string, before, after facts) error {
	if (before.hash == "") == (after.hash == "") {
		return nil
	}
	err := errors.Join(Anchors.Delete(tx, url), revisit(tx, url))
	if after.hash != "" {
		err = errors.Join(err, Relink.Notify(tx, url))
	}
	return err
}
