package index

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// facts are what a captured response says, by itself, about its URL.
type facts struct {
	hash     string // the cluster; "" if this is no document
	redirect string // "" if this is no redirect
	content  Content
	terms    map[string]int
	links    []page.Link
}

// process is the first observer: responses were stored, replaced or deleted. It reads each page
// once and writes, in one transaction, what follows from the pages alone: their clusters, their
// words, and their links, which are stored with their targets. Only differences to the previous
// versions of the pages are written.
func process(ctx context.Context, tx *percolator.Txn, changes []observers.Change) error {
	before, err := recall(ctx, tx, rowsOf(changes))
	if err != nil {
		return err
	}
	after := make([]facts, len(changes))
	for i, ch := range changes {
		if after[i], err = interpret(ch.Cell.Row, ch); err != nil {
			return err
		}
	}
	if err := readCanonical(ctx, tx, before, after); err != nil {
		return err
	}
	queued := Contributions{}
	for i, ch := range changes {
		url := ch.Cell.Row
		linked, err := moveLinks(tx, url, before[i].links, after[i].links)
		if err == nil {
			err = errors.Join(
				moveCluster(ctx, tx, url, before[i], after[i], queued),
				moveRedirect(tx, url, before[i].redirect, after[i].redirect))
		}
		if err != nil {
			return err
		}
		// The page passes its rank on, or takes it back.
		if linked || (before[i].hash == "") != (after[i].hash == "") {
			queued.add(url, Contribution{Links: true})
		}
	}
	return enqueue(tx, queued)
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

// recall reads what earlier runs have written for the URLs.
func recall(ctx context.Context, tx *percolator.Txn, urls []string) ([]facts, error) {
	var cells []percolator.Cell
	for _, url := range urls {
		cells = append(cells, Hash.Cell(url), Redirect.Cell(url), Derived.Cell(url), Terms.Cell(url), OutLinks.Cell(url))
	}
	f := Fetch(ctx, tx, cells...)
	known := make([]facts, len(urls))
	for i, url := range urls {
		known[i] = facts{
			hash: Get(f, Hash, url), redirect: Get(f, Redirect, url),
			content: Get(f, Derived, url), terms: Get(f, Terms, url), links: Get(f, OutLinks, url),
		}
	}
	return known, f.Err()
}

// readCanonical reads, in one request, what moveCluster looks at in the clusters that documents
// join and leave.
func readCanonical(ctx context.Context, tx *percolator.Txn, lists ...[]facts) error {
	var cells []percolator.Cell
	asked := map[string]bool{"": true}
	for _, list := range lists {
		for _, f := range list {
			if !asked[f.hash] {
				asked[f.hash] = true
				cells = append(cells, Canonical.Cell(f.hash), Shared.Cell(f.hash))
			}
		}
	}
	return Fetch(ctx, tx, cells...).Err()
}

// moveCluster takes the document out of its old cluster and into the new one. The document and its
// entry change in the same transaction, so no snapshot shows one without the other. The same holds
// for a canonical URL and its entry.
func moveCluster(ctx context.Context, tx *percolator.Txn, url string, before, after facts, queued Contributions) error {
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
		joinCluster(ctx, tx, url, after.hash, queued),
	)
}

// joinCluster adds the entry of url. The first member is canonical, as in figure 2 of the paper;
// where there is one already, the two have to be compared, now and whenever their ranks change, and
// the cluster is marked as shared.
func joinCluster(ctx context.Context, tx *percolator.Txn, url, hash string, queued Contributions) error {
	if err := Member(url).Set(tx, hash, nil); err != nil {
		return err
	}
	f := Fetch(ctx, tx, Canonical.Cell(hash), Shared.Cell(hash))
	canonical, shared := Get(f, Canonical, hash), Get(f, Shared, hash) != nil
	switch {
	case f.Err() != nil:
		return f.Err()
	case canonical != "":
		queued.add(url, Contribution{Shared: true})
		queued.add(canonical, Contribution{Shared: true})
		return errors.Join(Shared.Set(tx, hash, nil), Recluster.Notify(tx, hash))
	case shared: // it has lost its canonical URL, and others may be left
		queued.add(url, Contribution{Shared: true})
	}
	return errors.Join(Canonical.Set(tx, hash, url), Export.Notify(tx, url))
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
	return errors.Join(Member(url).Delete(tx, hash), Recluster.Notify(tx, hash))
}

// moveRedirect turns the arrow of a redirect from one target to another; "" is none.
func moveRedirect(tx *percolator.Txn, url, before, after string) error {
	if before == after {
		return nil
	}
	if before != "" {
		if err := errors.Join(
			Redirect.Delete(tx, url),
			LinkRedirect(url).Delete(tx, before),
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
		LinkRedirect(url).Set(tx, after, nil),
		Relink.Notify(tx, after),
	)
}

// moveLinks inverts the links of the document: each is stored under its target. Targets whose link
// from here is the same as before are left alone. It reports whether there is a difference.
func moveLinks(tx *percolator.Txn, url string, before, after []page.Link) (changed bool, err error) {
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
		if err := errors.Join(LinkAnchors(url).Set(tx, l.Target, l.Anchors), Relink.Notify(tx, l.Target)); err != nil {
			return false, err
		}
	}
	for target := range old {
		if err := errors.Join(LinkAnchors(url).Delete(tx, target), Relink.Notify(tx, target)); err != nil {
			return false, err
		}
	}
	if same && len(old) == 0 {
		return false, nil
	}
	return true, setOrDelete(tx, OutLinks, url, after, len(after) == 0)
}
