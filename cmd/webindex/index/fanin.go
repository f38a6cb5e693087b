package index

import (
	"hash/fnv"
	"strings"

	"github.com/gopercolator/percolator/percolator"
)

// Links and clusters collect what many pages say about one thing, in one row: each page has a
// column of its own, named by its URL, so that pages never conflict however many there are.

const (
	anchorsPrefix  = "anchors:"
	redirectPrefix = "redirect:"
	memberPrefix   = "member:"
)

// partOf spreads URLs evenly over n parts, and says to which one a URL belongs.
func partOf(url string, n uint32) uint64 {
	h := fnv.New32a()
	h.Write([]byte(url)) //nolint:errcheck // never fails
	return uint64(h.Sum32() % n)
}

// LinkAnchors are the distinct texts with which the page source links to the URL of the row.
func LinkAnchors(source string) percolator.Column[[]string] {
	return percolator.JSON[[]string](Links, anchorsPrefix+source)
}

// LinkRedirect marks that source redirects to the URL of the row; the value is empty.
func LinkRedirect(source string) percolator.Column[[]byte] {
	return percolator.Bytes(Links, redirectPrefix+source)
}

// LinkSource is the inverse of LinkAnchors and LinkRedirect.
func LinkSource(column string) (source string, redirect bool) {
	if source, ok := strings.CutPrefix(column, redirectPrefix); ok {
		return source, true
	}
	return strings.TrimPrefix(column, anchorsPrefix), false
}

// Member marks a URL as a member of the cluster of the row; the value is empty.
func Member(url string) percolator.Column[[]byte] {
	return percolator.Bytes(Clusters, memberPrefix+url)
}

// MemberURL is the inverse of Member; ok is false for another column.
func MemberURL(column string) (url string, ok bool) { return strings.CutPrefix(column, memberPrefix) }
