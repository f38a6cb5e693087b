package index

import (
	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/percolator"
)

// The tables.
const (
	// Documents has a row for every URL that was crawled: what the crawl brought, and what the
	// observers made of it.
	Documents = "documents"
	// Clusters has a row for every content hash, with the canonical URL and the members.
	Clusters = "clusters"
	// Links has a row for every URL that others link or redirect to, with a column for each of
	// these.
	Links = "links"
	// RankAccounts says what rank each URL has received and passed on. See [Account].
	RankAccounts = "rank_accounts"
	// Serving has a row for every canonical URL: what the search page shows, but for the rank,
	// which changes too often to be copied.
	Serving = "serving"
	// Segments say in which canonical documents a term occurs: what the search page looks up. See
	// [Segment].
	Segments = "segments"
)

// What the crawl brings. Response is the column that sets everything else in motion.
var (
	// Response is the stored form of a crawled response, see [Capture].
	Response = percolator.Bytes(Documents, "crawl:response")
	// Digest is a fingerprint of Response: loading a page that has not changed reads these few
	// bytes and is done.
	Digest = percolator.String(Documents, "crawl:digest")
)

// What the observers derive for each URL.
var (
	// Hash is the cluster of the document. A row without it is not a document: a redirect, an
	// error, or a link's target.
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
)

// What the observers derive for each content hash.
var (
	// Canonical is the member of the cluster that the search page shows.
	Canonical = percolator.String(Clusters, "cluster:canonical")
	// Shared marks a cluster that has several members, or had them until a moment ago; the value is
	// empty. Most have one, and a look at a cell that finds that out shares the request with
	// others, unlike who scans for members.
	Shared = percolator.Bytes(Clusters, "cluster:shared")
)

// What the search page reads.
var (
	// Served is the content hash from which the row and its postings were made.
	Served = percolator.String(Serving, "serve:hash")
	// ServedContent is the document's title and the start of its text.
	ServedContent = percolator.JSON[Content](Serving, "serve:content")
	// ServedTerms are the terms for which segments name the document.
	ServedTerms = percolator.JSON[map[string]int](Serving, "serve:terms")
	// ServedAnchors are the anchor texts of all members of the document's cluster.
	ServedAnchors = percolator.JSON[[]Anchor](Serving, "serve:anchors")
)

// SegmentBytes is about how much a segment holds. Every segment has it, so it lists them.
var SegmentBytes = percolator.Int64(Segments, "segments:bytes")

// Deepest is the deepest level of which a part has, or had, a segment. It is in a row of its own.
var Deepest = percolator.Int64(Segments, "segments:deepest")

const deepestRow = "levels"

// Columns that are never written, only notified: "have another look at this row". Many reasons to
// look become one look.
var (
	// Relink says that the links or redirects to this URL have changed.
	Relink = percolator.Bytes(Documents, "relink")
	// Reroute says that this URL redirects elsewhere than before.
	Reroute = percolator.Bytes(Documents, "reroute")
	// Rerank says that this document has another rank.
	Rerank = percolator.Bytes(Documents, "rerank")
	// Recluster says that this cluster gained or lost a member, or that the content of one is shown
	// in another way.
	Recluster = percolator.Bytes(Clusters, "recluster")
	// Merge says that a part of a level has another segment. The row is that of the part.
	Merge = percolator.Bytes(Segments, "segments:merge")
	// Export says that what the search page shows for this URL may have changed.
	Export = percolator.Bytes(Documents, "export")
)

// Schema is the set of tables that an instance needs for the web index. It has a name, so that the
// instance may have other tables.
func Schema() *percolator.Schema {
	return &percolator.Schema{Name: "webindex", Tables: []percolator.Table{
		{Name: Documents, Observed: []string{Response.Name}, Weak: []string{
			Relink.Name, Reroute.Name, Rerank.Name, Export.Name,
		}},
		{Name: Clusters, Weak: []string{Recluster.Name}},
		{Name: Links},
		{Name: RankAccounts},
		Passing.Table(),
		{Name: Serving},
		{Name: Segments, Weak: []string{Merge.Name}},
	}}
}
