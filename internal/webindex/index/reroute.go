package index

import (
	"context"
	"slices"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"

	"github.com/gopercolator/percolator/internal/webindex/page"
)

// reroute runs when a URL redirects elsewhere than before, or begins or ceases to redirect. All
// pages whose links lead here, maybe by way of other redirects, are told to find their targets
// again. Whichever part of a chain of redirects changes last, its run sees the whole chain, and so
// does what it sets off.
func reroute(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
	in, err := CollectInLinks(ctx, tx, ch.Cell.Row)
	if err != nil {
		return err
	}
	all := Contributions{}
	for source := range in {
		all.add(source, Contribution{Links: true})
	}
	return enqueue(tx, all)
}

// destinations are the URLs to which a page's links lead, at the ends of all redirects, in order.
// See [Unit] for what counts.
func destinations(ctx context.Context, r percolator.Reader, url string, links []page.Link) ([]string, error) {
	next := map[string]string{} // what is known of redirects; "" is none
	var ask []string
	for _, l := range links {
		if _, known := next[l.Target]; !known {
			next[l.Target] = ""
			ask = append(ask, l.Target)
		}
	}
	for len(ask) > 0 { // one request for a step along all chains
		redirects, err := Values(ctx, r, Redirect, ask)
		if err != nil {
			return nil, err
		}
		asked := ask
		ask = nil
		for i, to := range redirects {
			if to == "" {
				continue
			}
			next[asked[i]] = to
			if _, known := next[to]; !known {
				next[to] = ""
				ask = append(ask, to)
			}
		}
	}
	return ends(next, url, links), nil
}

// ends follows the redirects in next from each link.
func ends(next map[string]string, url string, links []page.Link) []string {
	var found []string
	for _, l := range links {
		if end := follow(next, l.Target); end != "" && end != url {
			found = append(found, end)
		}
	}
	slices.Sort(found)
	return limitTargets(slices.Compact(found))
}

// MaxTargetBytes is how long all URLs may be together to which a page passes its rank on: redirects
// may be longer than the links that lead to them. Those that come later in the order of URLs get
// nothing.
const MaxTargetBytes = 4 << 20

func limitTargets(urls []string) []string {
	size := 0
	for i, url := range urls {
		if size += len(url); size > MaxTargetBytes {
			return urls[:i]
		}
	}
	return urls
}

// follow walks along redirects to their end; "" if they are a circle.
func follow(next map[string]string, url string) string {
	for range len(next) + 1 {
		to := next[url]
		if to == "" {
			return url
		}
		url = to
	}
	return ""
}
