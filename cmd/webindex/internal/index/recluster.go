package index

import (
	"context"
	"errors"
	"fmt"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// chooseCanonical decides which member of a cluster of duplicates the search page shows: the one of the highest rank, and
// of equal ones the smallest URL.
func chooseCanonical(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
	hash := ch.Cell.Row
	current, err := Canonical.GetForUpdate(ctx, tx, hash)
	if err != nil && !errors.Is(err, percolator.ErrNotFound) {
		return err
	}
	members, err := Members(ctx, tx, hash)
	if err != nil {
		return err
	}
	best, err := highestRank(ctx, tx, members)
	if err != nil {
		return err
	}
	if best == "" { // the last member has left, and has taken care of the canonical URL
		return nil
	}
	if best != current {
		if err := moveCanonical(ctx, tx, hash, current, best); err != nil {
			return err
		}
	}
	return Export.Notify(tx, best) // its place or the anchors of some member changed
}

// moveCanonical makes another member the canonical one.
func moveCanonical(ctx context.Context, tx *percolator.Txn, hash, from, to string) error {
	// The chosen member must not leave while we write its name: leaving deletes this cell, so one of us fails.
	if _, err := Member.GetForUpdate(ctx, tx, Pair(hash, to)); err != nil {
		return err
	}
	if from != "" {
		if err := Export.Notify(tx, from); err != nil {
			return err
		}
	}
	return Canonical.Set(tx, hash, to)
}

// Members lists the URLs whose content has this hash, in order.
func Members(ctx context.Context, r percolator.Reader, hash string) ([]string, error) {
	var urls []string
	for e, err := range r.Scan(ctx, Clusters, PairsOf(hash)) {
		if err != nil {
			return nil, fmt.Errorf("members of cluster %s: %w", hash, err)
		}
		url, _ := Second(e.Cell.Row)
		urls = append(urls, url)
	}
	return urls, nil
}

// highestRank picks from members, which are in order: the first of those with equal rank is the smallest URL.
func highestRank(ctx context.Context, r percolator.Reader, members []string) (best string, err error) {
	cells := make([]percolator.Cell, len(members))
	for i, url := range members {
		cells[i] = Rank.Cell(url)
	}
	if _, err := r.GetMulti(ctx, cells...); err != nil { // all in one request; now they are cached
		return "", err
	}
	highest := int64(-1)
	for _, url := range members {
		rank, err := Rank.GetOr(ctx, r, url, 0)
		if err != nil {
			return "", err
		}
		if rank > highest {
			best, highest = url, rank
		}
	}
	return best, nil
}
