package index

import (
	"strconv"

	"github.com/gopercolator/percolator/cmd/webindex/page"
)

// The rank of a document is its PageRank, not normalized: a reader who follows links at random, and
// with probability 1−d jumps to any document instead, meets documents in proportion to their
// ranks, which are 1 on average where no link leads out of the crawl.
//
//	rank(p) = (1−d) + d · Σ rank(q) / outdegree(q)   over all documents q ≠ p that link to p
//	d = 17/20
//
// A link leads to the end of the redirects that begin at its target, and nowhere if these are a
// circle. Several links of a page that lead to the same URL are one, and those that lead back to
// the page itself are none; outdegree(q) is the number of different URLs that remain, crawled or
// not. Duplicates are documents like any other: each has a rank of its own.
//
// # How it is kept
//
// A rank is a whole number of units, so that sums are exact whatever the order in which they are
// made. Of each document is stored which Rank it has passed on, and to which URLs ([PassedTo]);
// when either changes, the same transaction adds the differences to accounts or puts them into the
// queue [Passing]. Of each URL is stored in its [Account] what it has received: the sum of what the
// queue has brought. So in any snapshot, received(p) and what is queued for p are together exactly
// the sum of share(q) over all q that have passed something on to p, whatever was changed in the
// meantime and in which order.
//
// A document's residual is (1−d) + received − rank: what it has got and not yet passed on.
// While it is larger than [Epsilon], either way, the document has something to pass on.
//
// # What that implies
//
// When nothing is left to do, the stored ranks solve the equation above up to a residual at each
// document q of at most e = Epsilon + n/d units, where n ≤ [page.MaxLinks] is its outdegree:
// shares are rounded down to a unit. The solution is linear in the constant 1−d, so if each
// document has e too much or too little instead,
//
//	|rank(p) − PageRank(p)| ≤ e/(1−d) · PageRank(p)
//
// for each p: [Tolerance] is e/(1−d), the largest relative error of any rank. It does not depend
// on the size of the web.
const (
	// Unit is the number of units in a rank of 1. All documents together must have less than 2⁶³
	// units: about 9 · 10⁹ of them.
	Unit int64 = 1_000_000_000
	// Base is 1−d in units: the rank of a document that no other links to.
	Base = Unit * 3 / 20
	// Epsilon is how many units of a document's rank may stay undistributed.
	Epsilon = Unit * 3 / 400
	// Tolerance is the largest relative error of a stored rank, when nothing is left to do.
	Tolerance = (float64(Epsilon) + page.MaxLinks/Damping) / float64(Base)
	// Damping is d.
	Damping = 17.0 / 20
)

// Share is what a document of the given rank passes on to each of n URLs.
func Share(rank int64, n int) int64 {
	if n == 0 {
		return 0
	}
	damped := rank/20*17 + rank%20*17/20 // 17/20 of it, without an overflow
	return damped / int64(n)
}

// RankFor is the rank that belongs to what a document has received. While differences are under way
// the queue can bring them in another order than they were sent, so that less than nothing seems to
// have come in.
func RankFor(received int64) int64 { return Base + max(0, received) }

// Settled tells whether a document that has passed on the first rank, and by what it received
// deserves the second, has nothing to distribute.
func Settled(passed, deserved int64) bool {
	return max(passed-deserved, deserved-passed) <= Epsilon
}

// RankValue is a rank in which 1 is the average.
func RankValue(units int64) float64 { return float64(units) / float64(Unit) }

// FormatRank prints a rank for people, rounded.
func FormatRank(units int64) string { return strconv.FormatFloat(RankValue(units), 'f', 2, 64) }
