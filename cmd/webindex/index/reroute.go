package index

import (
	"context"
	"slices"

	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// reroute runs when URLs redirect elsewhere than before, or begin or cease to redirect. All pages
// whose links lead there, maybe by way of other redirects, are told to find their targets again.
// Whichever part of a chain of redirects changes last, its run sees the whole chain, and so does
// what it sets off.
func reroute(ctx context.Context, tx *percolator.Txn, changes []observers.Change) error {
	all := Contributions{}
	in, err := CollectInLinks(ctx, tx, rowsOf(changes)...)
	if err != nil {
		return err
	}
	for _, links := range in {
		for source := range links {
			all.add(source, Contribution{Links: true})
		}
	}
	return enqueue(tx, all)
}

// redirectsFrom is where URLs redirect, and where these redirect in turn; "" is none. It sends one
// request for a step along all of them.
func redirectsFrom(ctx context.Context, r percolator.Reader, urls []string) (next map[string]string, err error) {
	next = map[string]string{}
	for ask := urls; len(ask) > 0; {
		var asked []string
		for _, url := range ask {
			if _, known := next[url]; !known {
				next[url] = ""
				asked = append(asked, url)
			}
		}
		redirects, err := Values(ctx, r, Redirect, asked)
		if err != nil {
			return nil, err
		}
		ask = nil
		for i, to := range redirects {
			if to != "" {
				next[asked[i]] = to
				ask = append(ask, to)
			}
		}
	}
	return next, nil
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
