package index

import (
	"context"
	"errors"
	"slices"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// collectAnchors runs when the in-links of a URL have changed. For a document it stores their
// texts, and has its cluster reconsidered. A redirect has none: it passes the news on. A URL that
// was never crawled, but is linked to, needs nothing.
func collectAnchors(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
	url := ch.Cell.Row
	f := Fetch(ctx, tx, Hash.Cell(url), Redirect.Cell(url), Anchors.Cell(url))
	hash, redirect := Get(f, Hash, url), Get(f, Redirect, url)
	switch {
	case f.Err() != nil:
		return f.Err()
	case redirect != "":
		return passOn(ctx, tx, url, redirect)
	case hash == "":
		return nil
	}
	// Process locks the anchors, too, when it moves the document: the cluster to notify must not
	// change under our feet. The hash itself is not locked, because records of locks on a cell make
	// reading it dearer, and it is read often.
	known, err := Anchors.GetForUpdate(ctx, tx, url)
	if err != nil && !errors.Is(err, percolator.ErrNotFound) {
		return err
	}
	in, err := CollectInLinks(ctx, tx, url)
	if err != nil {
		return err
	}
	now := in.Anchors()
	if slices.Equal(known, now) {
		return nil
	}
	return errors.Join(setOrDelete(tx, Anchors, url, now, len(now) == 0), Recluster.Notify(tx, hash))
}

// passOn notifies the document at the end of a chain of redirects. It does so even if these
// in-links look the same as last time: the document collects from all redirects itself, maybe in
// between, and has to be told of each change. A circle of redirects leads nowhere.
func passOn(ctx context.Context, tx *percolator.Txn, url, next string) error {
	for seen := map[string]bool{url: true}; !seen[next]; {
		seen[next] = true
		further, err := Redirect.GetOr(ctx, tx, next, "")
		if err != nil {
			return err
		}
		if further == "" {
			return Relink.Notify(tx, next)
		}
		next = further
	}
	return nil
}
