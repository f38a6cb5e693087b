package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gopercolator/percolator/percolator"

	"github.com/gopercolator/percolator/internal/webindex/index"
)

// clusters compares members and canonical URLs. What is found is crossed off, and what is left at
// the end is missing.
func (c *check) clusters(ctx context.Context) error {
	canonical := map[string]string{} // by hash
	members := map[string]bool{}     // pairs of hash and URL
	shared := map[string]bool{}      // hashes with several members
	for hash, urls := range c.web.clusters {
		if len(urls) > 1 {
			shared[hash] = true
		}
		for _, url := range urls {
			members[index.Pair(hash, url)] = true
			if c.web.documents[url].canon {
				canonical[hash] = url
			}
		}
	}
	for r, err := range rows(c.reader.Scan(ctx, index.Clusters, percolator.All())) {
		if err != nil {
			return fmt.Errorf("reading %s: %w", index.Clusters, err)
		}
		if _, pair := index.Second(r.key); pair {
			if !members[r.key] {
				c.compare("entry in cluster", r.key, "", "an entry")
			}
			delete(members, r.key)
			continue
		}
		c.compare("canonical", r.key, canonical[r.key], column(c, r, index.Canonical))
		delete(canonical, r.key)
		_, marked := r.cells[index.Shared.Name]
		c.compare("shared", r.key, mark(shared[r.key]), mark(marked))
		delete(shared, r.key)
	}
	for _, hash := range slices.Sorted(maps.Keys(canonical)) {
		c.compare("canonical", hash, canonical[hash], "")
	}
	for _, hash := range slices.Sorted(maps.Keys(shared)) {
		c.compare("shared", hash, mark(true), "")
	}
	for _, pair := range slices.Sorted(maps.Keys(members)) {
		c.compare("entry in cluster", pair, "an entry", "")
	}
	return nil
}

func mark(yes bool) string {
	if yes {
		return "a mark"
	}
	return ""
}
