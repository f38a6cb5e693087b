package index_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/cmd/webindex/crawl"
	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/webtest"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

const (
	d    = index.Damping
	base = 1 - d

	absent = "http://absent.test/" // never crawled
)

func accountOf(w *webtest.Web, url string) index.Account {
	return webtest.Value(w, index.AccountOf(url), index.Block(url))
}

// wantRanks checks the whole index, and stored ranks against PageRanks that were worked out by
// hand. 0 is no rank at all.
func wantRanks(t *testing.T, w *webtest.Web, what string, want map[string]float64) {
	t.Helper()
	w.Check()
	for url, rank := range want {
		got := index.RankValue(accountOf(w, url).Rank)
		if math.Abs(got-rank) > index.Tolerance*rank {
			t.Errorf("%s: rank of %s is %.4f, want %.4f", what, url, got, rank)
		}
	}
}

// put loads a page with words of its own and links without texts.
func put(w *webtest.Web, url string, links ...string) {
	w.Put(url, webtest.Page(url, "words of "+url, links...))
}

func TestRanksOfAStar(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	w := webtest.New(t, 1)
	put(w, target)
	for i := range 10 {
		put(w, fmt.Sprintf("http://ray.test/%d", i), target)
	}
	wantRanks(t, w, "10 rays", map[string]float64{target: base + 10*d*base, "http://ray.test/3": base})
	put(w, "http://ray.test/3", target, other)
	wantRanks(t, w, "half a ray less", map[string]float64{target: base + 9.5*d*base, other: 0})
	put(w, other)
	wantRanks(t, w, "what was linked to before is crawled", map[string]float64{target: base + 9.5*d*base, other: base + 0.5*d*base})
	remove(w, "http://ray.test/4")
	wantRanks(t, w, "a ray is deleted", map[string]float64{target: base + 8.5*d*base, "http://ray.test/4": 0})
	remove(w, target)
	wantRanks(t, w, "the middle is deleted", map[string]float64{target: 0})
	put(w, target)
	wantRanks(t, w, "the middle is back", map[string]float64{target: base + 8.5*d*base})
}

func TestRanksOfAChainAndOfACycle(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 1)
	chain, cycle := map[string]float64{}, map[string]float64{}
	rank := 0.0
	for i := range 8 {
		rank = base + d*rank
		put(w, fmt.Sprintf("http://chain.test/%d", i), fmt.Sprintf("/%d", i+1))
		chain[fmt.Sprintf("http://chain.test/%d", i)] = rank
		put(w, fmt.Sprintf("http://cycle.test/%d", i), fmt.Sprintf("/%d", (i+1)%8))
		cycle[fmt.Sprintf("http://cycle.test/%d", i)] = 1
	}
	wantRanks(t, w, "chain", chain)
	wantRanks(t, w, "cycle", cycle)

	// The last page closes a second cycle: now all ranks of the chain are 1 as well. Then the first
	// cycle is cut open.
	put(w, "http://chain.test/7", "/0")
	put(w, "http://cycle.test/7")
	rank = 0
	for i := range 8 {
		rank = base + d*rank
		cycle[fmt.Sprintf("http://cycle.test/%d", i)], chain[fmt.Sprintf("http://chain.test/%d", i)] = rank, 1
	}
	wantRanks(t, w, "chain that was closed", chain)
	wantRanks(t, w, "cycle that was cut", cycle)
}

func TestRanksFollowRedirects(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 1)
	r1, r2 := "http://r.test/1", "http://r.test/2"
	put(w, target)
	put(w, mirror)
	put(w, home, r1, r2, third)
	w.Redirect(r1, r2)
	w.Redirect(r2, target)
	// Two links lead to the same page and are one; the third leads to nothing that was crawled, and
	// is one too.
	wantRanks(t, w, "a chain of redirects", map[string]float64{target: base + d*base/2, mirror: base, r1: 0, r2: 0})
	w.Redirect(r2, mirror)
	wantRanks(t, w, "its end was moved", map[string]float64{target: base, mirror: base + d*base/2})
	w.Redirect(r1, target)
	wantRanks(t, w, "its beginning was moved", map[string]float64{target: base + d*base/3, mirror: base + d*base/3})
	w.Redirect(r2, home)
	wantRanks(t, w, "it leads back to the page", map[string]float64{target: base + d*base/2, mirror: base, home: base})
	w.Redirect(r2, r1)
	w.Redirect(r1, r2)
	wantRanks(t, w, "it is a circle", map[string]float64{target: base, mirror: base, home: base})
	put(w, third)
	wantRanks(t, w, "one link leads somewhere", map[string]float64{third: base + d*base})
	put(w, r1)
	wantRanks(t, w, "the circle has become a page", map[string]float64{r1: base + d*base/2, third: base + d*base/2, r2: 0})
	remove(w, r1)
	wantRanks(t, w, "which is gone", map[string]float64{r1: 0, third: base + d*base/2})
}

// TestManyLinks: a page passes its rank on to many URLs, and takes a part of it back.
func TestManyLinks(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	w := webtest.New(t, 1)
	const links = 1800
	list := make([]string, links)
	for i := range list {
		list[i] = fmt.Sprintf("http://many.test/%d", i)
	}
	put(w, home, list...)
	wantRanks(t, w, "many links", map[string]float64{home: base, list[7]: 0})
	want(t, "received", accountOf(w, list[7]).Received, index.Share(index.Base, links))
	put(w, home, list[:links/2]...)
	wantRanks(t, w, "half of them", nil)
	want(t, "received", accountOf(w, list[7]).Received, index.Share(index.Base, links/2))
	want(t, "taken back", accountOf(w, list[links-1]).Received, int64(0))
}

// TestHigherRankIsCanonical: what counts is not how many pages link to a duplicate, but which.
func TestHigherRankIsCanonical(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 1)
	same := webtest.Page("Same", "the same words")
	w.Put(target, same)
	w.Put(mirror, same)
	put(w, home, target)
	put(w, other, mirror, third)
	put(w, third, mirror, other)
	canonical := func() string { return webtest.Value(w, index.Canonical, webtest.Value(w, index.Hash, target)) }
	wantRanks(t, w, "two links", nil)
	want(t, "canonical", canonical(), mirror)
	for i := range 8 {
		put(w, fmt.Sprintf("http://fan.test/%d", i), home)
	}
	wantRanks(t, w, "one link of a better page", map[string]float64{target: base + d*(base+8*d*base)})
	want(t, "canonical", canonical(), target)
	want(t, "served", webtest.Value(w, index.Served, mirror), "")
}

// TestWorkIsProportionalToTheReach changes where one page links to, in webs of two sizes. Two
// chains hear of it, until the difference is less than Epsilon, and nobody else.
func TestWorkIsProportionalToTheReach(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for _, rest := range []int{10, 60} {
		t.Run(fmt.Sprint(rest), func(t *testing.T) {
			t.Parallel()
			w := webtest.New(t, 1)
			left := func(i int) string { return fmt.Sprintf("http://left.test/%d", i) }
			right := func(i int) string { return fmt.Sprintf("http://right.test/%d", i) }
			for i := range rest {
				put(w, fmt.Sprintf("http://rest.test/%d", i), fmt.Sprintf("/%d", (i+1)%rest), left(0), right(3))
			}
			const length = 8
			for i := range length {
				put(w, left(i), left(i+1), absent)
				put(w, right(i), right(i+1), absent)
			}
			put(w, home, left(0))
			w.Check()
			before, ran, ranked := w.Client.Stats(), runs(w), ranks(w)
			put(w, home, right(0))
			w.Check()

			// home passes on 0.1275, and each page 0.425 of a difference to the next: of the fifth
			// page's 0.0042 nothing need be passed on, unless there were residuals from before.
			may, must := map[string]bool{}, map[string]bool{}
			for i := range length {
				may[left(i)], may[right(i)] = true, true
				must[left(min(i, 1))], must[right(min(i, 1))] = true, true
			}
			for url, rank := range ranks(w) {
				if moved := rank != ranked[url]; moved && !may[url] || !moved && must[url] {
					t.Errorf("rank of %s changed: %v, want %v", url, moved, !moved)
				}
			}
			// Load, process, relink of two targets, export, recluster, and a fold for home's links;
			// at each step of the chains two pages are ranked again and four URLs receive
			// something, each of them by a fold of its own at worst.
			const most = 7 + (4+2)*length
			n, transactions := runs(w)-ran, w.Client.Stats().Transactions-before.Transactions
			if n > most || transactions > most {
				t.Errorf("%d observer runs and %d transactions, want at most %d", n, transactions, most)
			}
			t.Logf("%d pages: %d runs, %d transactions", rest+2*length+1, n, transactions)
		})
	}
}

// ranks are the ranks of all documents.
func ranks(w *webtest.Web) map[string]int64 {
	found := map[string]int64{}
	w.View(func(ctx context.Context, snap *percolator.Snapshot) error {
		for e, err := range snap.Scan(ctx, index.RankAccounts, percolator.All()) {
			if err != nil {
				return err
			}
			url, passedTo := index.AccountURL(e.Cell.Column)
			if passedTo {
				continue
			}
			a, err := index.AccountOf(url).Decode(e.Cell.Row, e.Value)
			if err != nil {
				return err
			}
			found[url] = a.Rank
		}
		return nil
	})
	return found
}

// TestPopularPage loads many pages that link to one, 32 at a time, and has them processed and
// their ranks passed on. Nobody has to wait for the popular page.
func TestPopularPage(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	pages := fixture.Of[int64](1000, 400)
	w := webtest.New(t, 0)
	columns := []observers.Column{{Table: index.Documents, Name: index.Response.Name}}
	for _, name := range index.Passing.Table().Weak {
		columns = append(columns, observers.Column{Table: index.Passing.Table().Name, Name: name})
	}
	worker := w.Start(w.Client, columns...)
	put(w, target)
	var loading errgroup.Group
	loading.SetLimit(32)
	for i := range pages {
		loading.Go(func() error {
			url := fmt.Sprintf("http://fan.test/%d", i)
			page := index.NewPage(url, index.NewCapture(&crawl.Response{
				URL: url, Status: 200, Header: http.Header{"Content-Type": {"text/html"}},
				Body: []byte(webtest.Page(url, fmt.Sprint("number", i), target)),
			}))
			_, err := w.Client.Update(w.Context(), func(ctx context.Context, tx *percolator.Txn) error {
				return index.Load(ctx, tx, []*index.Page{page})
			})
			return err
		})
	}
	if err := loading.Wait(); err != nil {
		t.Fatal(err)
	}
	all := pages * index.Share(index.Base, 1)
	for ctx := w.Context(); accountOf(w, target).Received != all; time.Sleep(10 * time.Millisecond) {
		if err := ctx.Err(); err != nil {
			t.Fatalf("the popular page has received %d units of %d: %v", accountOf(w, target).Received, all, err)
		}
	}
	w.View(checkBalance)
	folds := worker.Stats().Runs - worker.Stats().Observers["process"].Runs
	if n := w.Client.Stats().Conflicts; n > 0 {
		t.Errorf("%d conflicts", n)
	}
	if folds > pages {
		t.Errorf("%d folds for %d contributions", folds, pages)
	}
	t.Logf("%d folds", folds)
}
