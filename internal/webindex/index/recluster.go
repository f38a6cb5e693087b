package index

import (
	"context"
	"errors"
	"fmt"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// recluster runs when a cluster has other members, or one of them other anchors: the canonical URL is chosen again, and shown with
// what is said about it now.
func recluster(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
	canonical, err := chooseCanonical(ctx, tx, ch.Cell.Row)
	if err != nil || canonical == "" { // the last member has left, and has taken care of the canonical URL
		return err
	}
	return Export.Notify(tx, canonical)
}

// rerank runs when a document has another rank: the canonical URL of its cluster is chosen again. Most clusters have one member
// only, and that has nothing to fear; whoever joins it, or joins another cluster, has recluster run.
func rerank(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
	hash, err := Hash.GetOr(ctx, tx, ch.Cell.Row, "")
	if err != nil || hash == "" {
		return err
	}
	members, err := Members(ctx, tx, hash)
	if err != nil || len(members) < 2 {
		return err
	}
	_, err = chooseCanonical(ctx, tx, hash)
	return err
}

// chooseCanonical decides which member of a cluster of duplicates the search page shows: the one of the highest rank, and
// of equal ones the smallest URL. It returns "" if there is no member.
func chooseCanonical(ctx context.Context, tx *percolator.Txn, hash string) (string, error) {
	current, err := Canonical.GetForUpdate(ctx, tx, hash)
	if err != nil && !errors.Is(err, percolator.ErrNotFound) {
		return "", err
	}
	members, err := Members(ctx, tx, hash)
	if err != nil {
		return "", err
	}
	best, err := highestRank(ctx, tx, members)
	if err != nil || best == current || best == "" {
		return best, err
	}
	return best, moveCanonical(ctx, tx, hash, current, best)
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
	return errors.Join(Canonical.Set(tx, hash, to), Export.Notify(tx, to))
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
