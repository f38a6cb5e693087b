package index

import (
	"context"
	"errors"
	"fmt"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// recluster runs when a cluster has other members, or one of them other anchors: the canonical URL
// is chosen again, and shown with what is said about it now.
func recluster(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
	canonical, err := chooseCanonical(ctx, tx, ch.Cell.Row)
	if err != nil || canonical == "" { // the last member has left, and has taken care of the canonical URL
		return err
	}
	return Export.Notify(tx, canonical)
}

// rerank runs when a document has another rank: the canonical URL of its cluster is chosen again.
// Most clusters have one member only, and that has nothing to fear; whoever joins it, or joins
// another cluster, has recluster run.
func rerank(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
	hash, err := Hash.GetOr(ctx, tx, ch.Cell.Row, "")
	if err != nil || hash == "" {
		return err
	}
	_, err = chooseCanonical(ctx, tx, hash)
	return err
}

// chooseCanonical decides which member of a cluster of duplicates the search page shows: the one of
// the highest rank, and of equal ones the smallest URL. It returns "" if there is no member.
func chooseCanonical(ctx context.Context, tx *percolator.Txn, hash string) (string, error) {
	c, err := readCluster(ctx, tx, hash)
	if err != nil || !c.shared { // nothing to choose from
		return c.canonical, err
	}
	if len(c.members) < 2 {
		if err := Shared.Delete(tx, hash); err != nil {
			return "", err
		}
	}
	best, err := highestRank(ctx, tx, c.members)
	switch {
	case err != nil || best == "":
		return "", err
	case best == c.canonical:
		// Written again, so that of two runs one fails: the other may know better. A lock would do, but
		// its record stays on the cell and has everybody look further back for the value.
		return best, Canonical.Set(tx, hash, best)
	}
	return best, moveCanonical(ctx, tx, hash, c.canonical, best)
}

// moveCanonical makes another member the canonical one.
func moveCanonical(ctx context.Context, tx *percolator.Txn, hash, from, to string) error {
	// The chosen member must not leave while we write its name: leaving deletes this cell, so one of
	// us fails.
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

// cluster is what is stored of a content hash.
type cluster struct {
	canonical string // "": none
	shared    bool
	members   []string // in order
}

// readCluster reads a cluster. Most have one member, which is canonical; only those that are marked
// as shared are scanned. That holds in every snapshot: whoever joins a cluster that has a canonical
// URL marks it; and one that lost its canonical URL, and has members left, had two, so it is marked
// until recluster has chosen again.
func readCluster(ctx context.Context, r percolator.Reader, hash string) (c cluster, err error) {
	values, err := r.GetMulti(ctx, Canonical.Cell(hash), Shared.Cell(hash))
	if err != nil {
		return c, err
	}
	c.canonical, c.shared = string(values[0]), values[1] != nil
	switch {
	case c.shared:
		c.members, err = Members(ctx, r, hash)
	case c.canonical != "":
		c.members = []string{c.canonical}
	}
	return c, err
}

// highestRank picks from members, which are in order: the first of those with equal rank is the
// smallest URL.
func highestRank(ctx context.Context, r percolator.Reader, members []string) (best string, err error) {
	if len(members) == 1 {
		return members[0], nil
	}
	ranks, err := Values(ctx, r, Rank, members)
	if err != nil {
		return "", err
	}
	highest := int64(-1)
	for i, rank := range ranks {
		if rank > highest {
			best, highest = members[i], rank
		}
	}
	return best, nil
}
