package index

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/gopercolator/percolator/observers/combinequeue"
	"github.com/gopercolator/percolator/percolator"
)

// Contribution is what is queued for a URL: part of a rank, and the news that its links may lead
// elsewhere.
type Contribution struct {
	// Rank is the difference, in units, between what a document has passed on before and now.
	Rank int64 `json:"rank,omitempty"`
	// Links says that this URL has become a document or ceased to be one, or that its links or the
	// redirects behind them have changed.
	Links bool `json:"links,omitempty"`
	// Shared says that this document shares its cluster; see [Account].
	Shared bool `json:"shared,omitempty"`
}

// Contributions are those of one or many transactions to some URLs.
type Contributions map[string]Contribution

func (cs Contributions) add(url string, c Contribution) {
	old := cs[url]
	cs[url] = Contribution{old.Rank + c.Rank, old.Links || c.Links, old.Shared || c.Shared}
}

func combine(a, b Contributions) Contributions {
	sum := maps.Clone(a)
	for url, c := range b {
		sum.add(url, c)
	}
	return sum
}

// Ranks is the one key of the queue: a fold passes rank on at once among all the URLs that it has.
const Ranks = "ranks"

// Passing is the queue by which documents pass their rank on. What is added to it are contributions
// to URLs. That conflicts with nothing, so however many pages link to one, they do not wait for
// each other; and a page hears of many differences at once.
var Passing = newQueue()

func newQueue() *combinequeue.Queue[Contributions] {
	q, err := combinequeue.New(combinequeue.Config[Contributions]{
		Values:  percolator.JSON[Contributions]("passing", "pass"),
		Combine: combine,
		Buckets: 1,
		Shards:  1,
	})
	if err != nil {
		panic(err) // the configuration is a constant
	}
	return q
}

// enqueue puts contributions into the queue, those that change nothing excepted.
func enqueue(tx *percolator.Txn, all Contributions) error {
	maps.DeleteFunc(all, func(_ string, c Contribution) bool { return c == Contribution{} })
	if len(all) == 0 {
		return nil
	}
	return Passing.Add(tx, Ranks, all)
}

// weight says how much a contribution matters.
func (c Contribution) weight() int64 {
	if c.Links || c.Shared {
		return math.MaxInt64
	}
	return max(c.Rank, -c.Rank)
}

// urgent are the URLs to which much is contributed, and those with new links, most first: of those
// that choose says, and at most so many.
func (cs Contributions) urgent(most int, choose func(url string, c Contribution) bool) (chosen []string) {
	urls := slices.SortedFunc(maps.Keys(cs), func(a, b string) int {
		return cmp.Or(cmp.Compare(cs[b].weight(), cs[a].weight()), cmp.Compare(a, b))
	})
	var largest int64
	for _, url := range urls {
		if len(chosen) == most || cs[url].weight() < largest/urgency {
			break
		}
		if !choose(url, cs[url]) {
			continue
		}
		chosen = append(chosen, url)
		if w := cs[url].weight(); largest == 0 && w < math.MaxInt64 {
			largest = w
		}
	}
	return chosen
}
