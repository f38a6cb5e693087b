package index

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

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

const (
	// groups is into how many groups the URLs are divided. A transaction that passes rank on to any
	// number of URLs writes as many cells at most, and as many folds can run at once.
	groups = 2
	// maxPassURLs is how many URLs a fold looks at, and maxDifferences after how many URLs that it has
	// to pass something on to it looks at no further one. (One alone has at most 2 × page.MaxLinks.)
	// What is left goes back into the queue.
	maxPassURLs    = 400
	maxDifferences = 20_000
	// urgency is how many times smaller than the largest contribution of a fold another may be to be
	// taken at the same time. Smaller ones go back into the queue, too, where more is added to them
	// meanwhile: what moves a rank by much should go first, because it makes others move, and looking
	// at a page for every bit of a rank would be several times the work.
	urgency = 8
)

// Passing is the queue by which documents pass their rank on. Its keys are groups of URLs, and what
// is added to them are contributions to URLs of the group. That conflicts with nobody, so however
// many pages link to one, they do not wait for each other; and a page hears of many differences at
// once.
var Passing = newQueue()

func newQueue() *combinequeue.Queue[Contributions] {
	q, err := combinequeue.New(combinequeue.Config[Contributions]{
		Values:  percolator.JSON[Contributions]("passing", "pass"),
		Combine: combine,
		Buckets: groups,
		Shards:  1,
	})
	if err != nil {
		panic(err) // the configuration is a constant
	}
	return q
}

// group is the key under which contributions to a URL are queued.
func group(url string) string { return "group " + strconv.FormatUint(partOf(url, groups), 10) }

// enqueue puts contributions into the queue, those that change nothing excepted.
func enqueue(tx *percolator.Txn, all Contributions) error {
	grouped := map[string]Contributions{}
	for url, c := range all {
		if c == (Contribution{}) {
			continue
		}
		g := group(url)
		if grouped[g] == nil {
			grouped[g] = Contributions{}
		}
		grouped[g][url] = c
	}
	for _, g := range slices.Sorted(maps.Keys(grouped)) {
		if err := Passing.Add(tx, g, grouped[g]); err != nil {
			return err
		}
	}
	return nil
}

// urgent are the URLs that a fold looks at: those with new links, and those to which much is
// contributed, most first.
func (cs Contributions) urgent() []string {
	weight := func(url string) int64 {
		if cs[url].Links || cs[url].Shared {
			return math.MaxInt64
		}
		return max(cs[url].Rank, -cs[url].Rank)
	}
	urls := slices.SortedFunc(maps.Keys(cs), func(a, b string) int {
		return cmp.Or(cmp.Compare(weight(b), weight(a)), cmp.Compare(a, b))
	})
	var largest int64
	for i, url := range urls {
		if w := weight(url); largest == 0 && w < math.MaxInt64 {
			largest = w
		}
		if i == maxPassURLs || weight(url) < largest/urgency {
			return urls[:i]
		}
	}
	return urls
}

// pass is what folds the queue: it adds to each URL what it has received and, where a document's
// rank has moved by more than Epsilon or its links lead elsewhere, passes the differences on. Of
// all that concerns the rank of a URL this is the only writer, and two folds that have the same URL
// conflict. So each decides from the outcome of the one before, and in the snapshot of a fold
// everything is visible that the contribution was queued for.
func pass(ctx context.Context, tx *percolator.Txn, sums []combinequeue.Sum[Contributions]) error {
	in := Contributions{}
	for _, s := range sums {
		for url, c := range s.Value {
			in.add(url, c)
		}
	}
	now := in.urgent()
	var accounts map[string]account
	var f *Fetched
	var group errgroup.Group
	group.Go(func() (err error) {
		accounts, err = readAccounts(ctx, tx, now, accountPrefix, passedToPrefix)
		return err
	})
	group.Go(func() error {
		f = fetchDocuments(ctx, tx, now, in)
		return f.Err()
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if err := readRedirects(ctx, tx, f, now, in); err != nil {
		return err
	}
	out := Contributions{}
	for _, url := range now {
		if len(out) > maxDifferences {
			break
		}
		if err := passOne(ctx, tx, f, url, accounts[url], in[url], out); err != nil {
			return err
		}
		delete(in, url)
	}
	return enqueue(tx, combine(out, in))
}
