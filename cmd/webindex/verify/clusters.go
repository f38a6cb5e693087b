package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/percolator"
)

// clusters compares members and canonical URLs. What is found is crossed off, and what is left at
// the end is missing.
func (c *check) clusters(ctx context.Context) error {
	left := map[string]cluster{}
	for hash, urls := range c.web.clusters {
		left[hash] = c.expected(urls)
	}
	for r, err := range rows(c.reader.Scan(ctx, index.Clusters, percolator.All())) {
		if err != nil {
			return fmt.Errorf("reading %s: %w", index.Clusters, err)
		}
		want := left[r.key]
		delete(left, r.key)
		for _, name := range slices.Sorted(maps.Keys(r.cells)) {
			if url, ok := index.MemberURL(name); ok && !want.members[url] {
				c.compare("entry in cluster", url, "", "an entry")
			} else if ok {
				delete(want.members, url)
			}
		}
		c.compare("canonical", r.key, want.canonical, column(c, r, index.Canonical))
		_, marked := r.cells[index.Shared.Name]
		c.compare("shared", r.key, mark(want.shared), mark(marked))
		c.missing(want)
	}
	for _, hash := range slices.Sorted(maps.Keys(left)) {
		c.compare("canonical", hash, left[hash].canonical, "")
		c.compare("shared", hash, mark(left[hash].shared), "")
		c.missing(left[hash])
	}
	return nil
}

// cluster is what should be stored of a cluster.
type cluster struct {
	canonical string
	shared    bool
	members   map[string]bool
}

func (c *check) expected(urls []string) cluster {
	e := cluster{shared: len(urls) > 1, members: map[string]bool{}}
	for _, url := range urls {
		e.members[url] = true
		if c.web.documents[url].canon {
			e.canonical = url
		}
	}
	return e
}

// missing reports the members that were not found.
func (c *check) missing(want cluster) {
	for _, url := range slices.Sorted(maps.Keys(want.members)) {
		c.compare("entry in cluster", url, "an entry", "")
	}
}

func mark(yes bool) string {
	if yes {
		return "a mark"
	}
	return ""
}
