// Package index keeps a searchable index of web pages up to date while pages are loaded, changed
// and deleted: the computation of section 1 of the paper, written as transactions and observers.
//
// # What happens to a page
//
// [Load] stores a crawled response in a transaction; the crawler does nothing else. The rest
// follows step by step, each step a transaction of an observer (see [Registry]):
//
//   - process reads the page. Its content hash determines its cluster of duplicates. It stores the
//     page's links again with their targets, so that a target finds everything about it in one row.
//   - relink has a page published when other links lead there. A redirect passes its links on to
//     its target; reroute makes the pages that link to it find their targets again.
//   - pass keeps the ranks (see [Unit]): it adds up what a URL has received from the documents that
//     link there. If the document's rank has thereby changed by more than [Epsilon], it passes the
//     difference on to where its own links lead. So a change spreads along the links, ever weaker,
//     until the rest is too small to matter.
//   - recluster and rerank pick the canonical URL of a cluster, the member with the highest rank.
//   - export updates the serving tables for a URL: title, text, terms, and the anchor texts of its
//     whole cluster. Segments record which documents have a term; merge makes them fewer (see
//     [Segment]).
//
// Each runs for batches of changes, when those that feed it have nothing left to do, or have worked
// for long.
//
// The figure shows what pass does, for a page p with four links, of which one leads to t.
// Contributions lie in a queue (package combinequeue), to which any transaction adds without a
// conflict. A page that a thousand others link to is one entry in a fold, not a thousand
// transactions that wait for each other.
//
//	page p                          queue "passing"                  page t
//	rank 0.32 → 0.40 ------------>  t: +0.017 from p   --fold-->     received + 0.021
//	                                t: +0.004 from q                 rank moved by more than Epsilon?
//	                                u: …                             then it is passed on from here
//
// A re-crawl of a page takes the same path. Every step compares with what is stored and writes only
// the difference, and a step that finds nothing to change starts no other. So the work is
// proportional to the change and, for ranks, to its reach: the pages whose rank it moves by more
// than Epsilon.
//
// # What holds at every instant
//
// In any snapshot, each processed document has one entry in the cluster of its content, each entry
// has its document, and a cluster has at most one canonical URL, which is a member; a cluster
// without the mark of several has no other member. These hold because one transaction writes both
// sides, whatever others write; compare figure 2 of the paper. And no part of a rank is lost: what
// a URL has received plus what is queued for it is exactly what documents have passed on to it.
//
// Everything else holds when the observers are idle: package verify states it, as a program. Ranks
// are then within [Tolerance], five percent, of what a computation from scratch finds; the
// canonical URLs and the order of search results follow exactly from the stored ranks.
//
// # Limits
//
// Package page bounds the terms and links of a page, and the length of a URL: a transaction that
// replaces all links of a page writes 20,000 rows of links. A page passes rank on to
// [MaxTargetBytes] of URLs. The in-links of a URL are one row, and so are the members of a cluster;
// an observer reads all of them at once: that works for many thousands, not for millions. A fold
// reads at most 14,000 accounts, and has or passes rank on to 16 MiB of names and those of one
// page. Anyone can make URLs of one block, whose row may then become as large as Bigtable allows.
// The index keeps at most [MaxAnchors] anchor texts for a URL.
package index
