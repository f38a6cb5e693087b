package index

import (
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/gopercolator/percolator/percolator"
)

// Links and Postings collect what many pages say about one thing, a URL or a term. Each page has a
// column of its own, named by its URL, so that pages never conflict however many there are. The
// columns are spread over a number of rows: one row for each page would cost more than what is in
// it, and one row for all pages would grow without bound and make every change of it expensive.
const shards = 64

// MaxURL is the longest URL of a page in bytes: it is part of a column.
const MaxURL = percolator.MaxColumnBytes - len(redirectPrefix)

const (
	anchorsPrefix  = "anchors:"
	redirectPrefix = "redirect:"
)

// shard is the part of a row key that depends on the page.
func shard(url string) string { return strconv.FormatUint(partOf(url, shards), 16) }

// partOf spreads URLs evenly over n parts, and says to which one a URL belongs.
func partOf(url string, n uint32) uint64 {
	h := fnv.New32a()
	h.Write([]byte(url)) //nolint:errcheck // never fails
	return uint64(h.Sum32() % n)
}

// LinkRow is the row of Links that says whether source links or redirects to target.
func LinkRow(target, source string) string { return Pair(target, shard(source)) }

// LinkAnchors are the distinct texts with which the page source links to the target of the row.
func LinkAnchors(source string) percolator.Column[[]string] {
	return percolator.JSON[[]string](Links, anchorsPrefix+source)
}

// LinkRedirect marks that source redirects to the target of the row; the value is empty.
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

// PostingRow is the row of Postings that says whether the document at url has the term.
func PostingRow(term, url string) string { return Pair(term, shard(url)) }

// Frequency is how often the term of the row occurs in the document at url.
func Frequency(url string) percolator.Column[int64] { return percolator.Int64(Postings, url) }
