package index

import (
	"context"
	"errors"
	"slices"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// countInLinks runs when the in-links of a URL have changed. For a document it stores rank and anchor texts, and has its
// cluster reconsidered. A redirect has neither: it passes the news on. A URL that was never crawled, but is linked to, needs
// nothing.
func countInLinks(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
	url := ch.Cell.Row
	if _, err := tx.GetMulti(ctx, Hash.Cell(url), Redirect.Cell(url), Sources.Cell(url)); err != nil {
		return err
	}
	redirect, err := Redirect.GetOr(ctx, tx, url, "")
	if err != nil {
		return err
	}
	if redirect != "" {
		return passOn(ctx, tx, url, redirect)
	}
	// The cluster to notify must not change under our feet; see also Registry.
	switch _, err := Hash.Get(ctx, tx, url); {
	case errors.Is(err, percolator.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	hash, err := Hash.GetForUpdate(ctx, tx, url)
	if err != nil {
		return err
	}
	known, err := Sources.GetOr(ctx, tx, url, "")
	if err != nil {
		return err
	}
	in, err := CollectInLinks(ctx, tx, url)
	if err != nil {
		return err
	}
	now := in.fingerprint()
	if now == known {
		return nil
	}
	if err := Sources.Set(tx, url, now); err != nil {
		return err
	}
	return storeInLinks(ctx, tx, url, hash, in)
}

// passOn notifies the document at the end of a chain of redirects. It does so even if these in-links look the same as last
// time: the document counts the links to all redirects itself, maybe in between, and has to be told of each change. A circle
// of redirects leads nowhere.
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

// storeInLinks writes what changed of rank and anchors.
func storeInLinks(ctx context.Context, tx *percolator.Txn, url, hash string, in InLinks) error {
	rank, err := Rank.GetOr(ctx, tx, url, 0)
	if err != nil {
		return err
	}
	anchors, err := Anchors.GetOr(ctx, tx, url, nil)
	if err != nil {
		return err
	}
	changed := false
	if rank != in.Rank() {
		changed = true
		if err := Rank.Set(tx, url, in.Rank()); err != nil {
			return err
		}
	}
	if texts := in.Anchors(); !slices.Equal(anchors, texts) {
		changed = true
		if err := setAnchors(tx, Anchors, url, texts); err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	return Recluster.Notify(tx, hash)
}
