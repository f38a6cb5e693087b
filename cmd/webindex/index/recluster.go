package index

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// recluster runs when clusters have other members: the canonical URL of each is chosen again, and
// shown with what is said about it now.
func recluster(ctx context.Context, tx *percolator.Txn, changes []observers.Change) error {
	canonical, err := chooseCanonical(ctx, tx, rowsOf(changes))
	if err != nil {
		return err
	}
	for _, url := range canonical {
		if url == "" { // the last member has left, and has taken care of the canonical URL
			continue
		}
		if err := Export.Notify(tx, url); err != nil {
			return err
		}
	}
	return nil
}

// rerank runs when documents that share their clusters have other ranks: the canonical URLs are
// chosen again.
func rerank(ctx context.Context, tx *percolator.Txn, changes []observers.Change) error {
	hashes, err := Values(ctx, tx, Hash, rowsOf(changes))
	if err != nil {
		return err
	}
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	_, err = chooseCanonical(ctx, tx, slices.DeleteFunc(hashes, func(h string) bool { return h == "" }))
	return err
}

// chooseCanonical decides for each of some clusters of duplicates, no two of them the same, which
// member the search page shows: the one of the highest rank, and of equal ones the smallest URL. It
// returns "" for one that has no member.
func chooseCanonical(ctx context.Context, tx *percolator.Txn, hashes []string) ([]string, error) {
	clusters, err := readClusters(ctx, tx, hashes)
	if err != nil {
		return nil, err
	}
	ranks, err := ranksIn(ctx, tx, clusters)
	if err != nil {
		return nil, err
	}
	chosen := make([]string, len(hashes))
	for i, c := range clusters {
		if chosen[i] = c.canonical; !c.shared { // nothing to choose from
			continue
		}
		chosen[i] = c.best(ranks)
		if err := c.settle(ctx, tx, hashes[i], chosen[i]); err != nil {
			return nil, err
		}
	}
	return chosen, nil
}

// settle writes down which member of a shared cluster is the best; "": there is none.
func (c *cluster) settle(ctx context.Context, tx *percolator.Txn, hash, best string) error {
	if len(c.members) < 2 {
		if err := Shared.Delete(tx, hash); err != nil {
			return err
		}
	}
	switch best {
	case "":
		return nil
	case c.canonical:
		// Written again, so that of two runs one fails: the other may know better. A lock would do,
		// but its record stays on the cell and makes all readers look further back for the value.
		return Canonical.Set(tx, hash, best)
	}
	return moveCanonical(ctx, tx, hash, c.canonical, best)
}

// moveCanonical makes another member the canonical one.
func moveCanonical(ctx context.Context, tx *percolator.Txn, hash, from, to string) error {
	// The chosen member must not leave while we write its name: leaving deletes this cell, so one
	// of us fails.
	if _, err := Member(to).GetForUpdate(ctx, tx, hash); err != nil {
		return err
	}
	if from != "" {
		if err := Export.Notify(tx, from); err != nil {
			return err
		}
	}
	return errors.Join(Canonical.Set(tx, hash, to), Export.Notify(tx, to))
}

// Members lists, for each of some hashes, the URLs whose content has it, in order.
func Members(ctx context.Context, r percolator.Scanner, hashes ...string) (map[string][]string, error) {
	members := map[string][]string{}
	if len(hashes) == 0 {
		return members, nil
	}
	o := percolator.ScanOptions{ColumnRanges: []percolator.Range{percolator.Prefix(memberPrefix)}}
	for _, hash := range hashes {
		o.Rows = append(o.Rows, percolator.Row(hash))
	}
	for e, err := range r.ScanWith(ctx, Clusters, o) {
		if err != nil {
			return nil, fmt.Errorf("members of clusters: %w", err)
		}
		url, _ := MemberURL(e.Cell.Column)
		members[e.Cell.Row] = append(members[e.Cell.Row], url)
	}
	return members, nil
}

// cluster is what is stored of a content hash.
type cluster struct {
	canonical string // "": none
	shared    bool
	members   []string // in order
}

// readClusters reads clusters; that of the hash "" is empty. Most have one member, which is
// canonical; only those that are marked as shared are scanned. That holds in every snapshot:
// a page that joins a cluster with a canonical URL marks it; and one that lost its canonical URL,
// and has members left, had two, so it is marked until recluster has chosen again.
func readClusters(ctx context.Context, r percolator.Scanner, hashes []string) ([]cluster, error) {
	var cells []percolator.Cell
	for _, hash := range hashes {
		if hash != "" {
			cells = append(cells, Canonical.Cell(hash), Shared.Cell(hash))
		}
	}
	values, err := r.GetMulti(ctx, cells...)
	if err != nil {
		return nil, err
	}
	clusters := make([]cluster, len(hashes))
	var shared []string
	for i, hash := range hashes {
		if hash == "" {
			continue
		}
		c := cluster{canonical: string(values[0]), shared: values[1] != nil}
		switch values = values[2:]; {
		case c.shared:
			shared = append(shared, hash)
		case c.canonical != "":
			c.members = []string{c.canonical}
		}
		clusters[i] = c
	}
	members, err := Members(ctx, r, shared...)
	for i, hash := range hashes {
		if clusters[i].shared {
			clusters[i].members = members[hash]
		}
	}
	return clusters, err
}

// ranksIn reads the ranks of the members of shared clusters.
func ranksIn(ctx context.Context, r percolator.Scanner, clusters []cluster) (map[string]int64, error) {
	var urls []string
	for _, c := range clusters {
		if len(c.members) > 1 {
			urls = append(urls, c.members...)
		}
	}
	accounts, err := ReadAccounts(ctx, r, urls...)
	if err != nil {
		return nil, err
	}
	ranks := map[string]int64{}
	for i, url := range urls {
		ranks[url] = accounts[i].Rank
	}
	return ranks, nil
}

// best is the member of the highest rank; members are in order, so the first of those with equal
// ranks is the smallest URL.
func (c *cluster) best(ranks map[string]int64) (best string) {
	highest := int64(-1)
	for _, url := range c.members {
		if ranks[url] > highest {
			best, highest = url, ranks[url]
		}
	}
	return best
}
