package index

import (
	"strings"

	"github.com/gopercolator/percolator/percolator"

	"github.com/gopercolator/percolator/internal/webindex/page"
)

// The tables. A row key that is made of two parts joins them with a zero byte, which no URL, hash
// or term contains: all rows of the first part then follow each other, and a prefix scan finds
// them.
const (
	// Documents has a row for every URL that was crawled: what the crawl brought, and what the
	// observers made of it.
	Documents = "documents"
	// Clusters has a row for every content hash with the canonical URL, and a row hash+URL for every
	// member.
	Clusters = "clusters"
	// Links holds the web, turned around: who links or redirects to a URL. See [LinkRow].
	Links = "links"
	// Serving has a row for every canonical URL: what the search page shows, but for the rank, which
	// changes too often to be copied.
	Serving = "serving"
	// Postings says in which canonical documents a term occurs: what the search page looks up. See
	// [PostingRow].
	Postings = "postings"
)

// What the crawl brings. Response is the column that sets everything else in motion.
var (
	// Response is the stored form of a crawled response, see [Capture].
	Response = percolator.Bytes(Documents, "crawl:response")
	// Digest is a fingerprint of Response: loading a page that has not changed reads these few bytes
	// and is done.
	Digest = percolator.String(Documents, "crawl:digest")
)

// What the observers derive for each URL.
var (
	// Hash is the cluster of the document. A row without it is not a document: a redirect, an error,
	// or a link's target.
	Hash = percolator.String(Documents, "doc:hash")
	// Derived is what a search result shows of the document.
	Derived = percolator.JSON[Content](Documents, "doc:content")
	// Terms is how often each term occurs in the document.
	Terms = percolator.JSON[map[string]int](Documents, "doc:terms")
	// OutLinks is what this document has contributed to Links, so that a re-crawl changes only the
	// difference.
	OutLinks = percolator.JSON[[]page.Link](Documents, "doc:links")
	// Redirect is where this URL redirects to, if it does.
	Redirect = percolator.String(Documents, "doc:redirect")
	// Rank is the document's PageRank in units, as it has passed it on; see [Unit].
	Rank = percolator.Int64(Documents, "doc:rank")
	// PassedTo are the URLs to which it has passed that rank on, to each its [Share]; in order, none
	// twice.
	PassedTo = percolator.JSON[[]string](Documents, "doc:passed")
	// Received is what all documents that link here have passed on to this URL, crawled or not; absent
	// means 0.
	Received = percolator.Int64(Documents, "doc:received")
	// Anchors are the texts of the in-links.
	Anchors = percolator.JSON[[]Anchor](Documents, "doc:anchors")
)

// What the observers derive for each content hash.
var (
	// Canonical is the member of the cluster that the search page shows.
	Canonical = percolator.String(Clusters, "cluster:canonical")
	// Shared marks a cluster that has several members, or had them until a moment ago; the value is
	// empty. Most have one, and whoever finds that out by looking at a cell shares the request with
	// others, unlike who scans for members.
	Shared = percolator.Bytes(Clusters, "cluster:shared")
	// Member marks a URL as a member; the row is a [Pair] of hash and URL, the value is empty.
	Member = percolator.Bytes(Clusters, "cluster:member")
)

// What the search page reads.
var (
	// Served is the content hash from which the row and its postings were made.
	Served = percolator.String(Serving, "serve:hash")
	// ServedContent is the document's title and the start of its text.
	ServedContent = percolator.JSON[Content](Serving, "serve:content")
	// ServedTerms are the terms that the document has postings for.
	ServedTerms = percolator.JSON[map[string]int](Serving, "serve:terms")
	// ServedAnchors are the anchor texts of all members of the document's cluster.
	ServedAnchors = percolator.JSON[[]Anchor](Serving, "serve:anchors")
)

// Columns that are never written, only notified: "have another look at this row". Many reasons to
// look become one look.
var (
	// Relink says that the in-links of this URL changed.
	Relink = percolator.Bytes(Documents, "relink")
	// Reroute says that this URL redirects elsewhere than before.
	Reroute = percolator.Bytes(Documents, "reroute")
	// Rerank says that this document has another rank.
	Rerank = percolator.Bytes(Documents, "rerank")
	// Recluster says that this cluster gained or lost a member, or that a member has other anchors.
	Recluster = percolator.Bytes(Clusters, "recluster")
	// Export says that what the search page shows for this URL may have changed.
	Export = percolator.Bytes(Documents, "export")
)

// Schema is the set of tables that an instance needs for the web index.
func Schema() *percolator.Schema {
	return &percolator.Schema{Tables: []percolator.Table{
		{Name: Documents, Observed: []string{Response.Name}, Weak: []string{
			Relink.Name, Reroute.Name, Rerank.Name, Export.Name,
		}},
		{Name: Clusters, Weak: []string{Recluster.Name}},
		{Name: Links},
		Passing.Table(),
		{Name: Serving},
		{Name: Postings},
	}}
}

// Pair is the row key that is made of two parts.
func Pair(first, second string) string { return first + "\x00" + second }

// Second is the second part of a row key made by [Pair]; ok is false for a key of one part.
func Second(row string) (second string, ok bool) {
	_, second, ok = strings.Cut(row, "\x00")
	return second, ok
}

// First is the first part of a row key made by [Pair], or all of a key of one part.
func First(row string) string {
	first, _, _ := strings.Cut(row, "\x00")
	return first
}

// PairsOf is the range of all pairs with this first part.
func PairsOf(first string) percolator.Range { return percolator.Prefix(first + "\x00") }
