// Package index keeps a searchable index of web pages up to date while pages are loaded, changed and deleted. It is the
// computation that section 1 of the paper describes, written as transactions and observers.
//
// # What happens to a page
//
// [Load] stores a crawled response in one transaction, and that is all the crawler has to do. The rest follows step by
// step, each step a transaction of an observer (see [Registry]):
//
//   - process reads the page. Its content hash says to which cluster of duplicates it belongs; its links are stored again
//     with their targets, so that a target finds everything that is said about it in one range of rows.
//   - relink counts, for a target whose links changed, the distinct pages that link to it: its rank. A redirect passes
//     its links on to where it leads.
//   - recluster picks the canonical URL of a cluster, the member with the highest rank.
//   - export makes the serving tables right for a URL: title, text, terms, and the anchor texts of its whole cluster.
//
// A re-crawl of a page takes the same way. Every step compares with what is stored and writes the difference only, and a
// step that finds nothing to change starts no other; so the work is proportional to what changed.
//
// # What holds at every instant
//
// In any snapshot, each processed document has one entry in the cluster of its content, each entry has its document, and a
// cluster has at most one canonical URL, which is a member. These hold because one transaction writes both sides, whoever
// else is writing; compare figure 2 of the paper. Everything else holds when the observers are idle: package verify states
// it, as a program.
//
// # Limits
//
// Package page bounds the terms and links of a page, so that its transactions stay below 15,000 rows, and the length of a
// URL. An observer reads all in-links of a page, or all members of a cluster, at once: that is fine for many thousands, not for
// millions. At most [MaxAnchors] anchor texts are kept for a URL.
package index
