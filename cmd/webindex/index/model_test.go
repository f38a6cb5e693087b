package index

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gopercolator/percolator/cmd/webindex/page"
)

// model is the way of ranks without a store: accounts, and a queue from which any contributions can
// be taken in any order.
type model struct {
	random    *rand.Rand
	links     map[string][]page.Link // of documents
	redirects map[string]string
	accounts  map[string]account
	queue     []Contributions // each of one URL
	reroutes  []string        // URLs for which reroute has to run
}

func newModel(seed uint64) *model {
	return &model{
		random: rand.New(rand.NewPCG(seed, 1998)),
		links:  map[string][]page.Link{}, redirects: map[string]string{}, accounts: map[string]account{},
	}
}

func (m *model) send(url string, c Contribution) { m.queue = append(m.queue, Contributions{url: c}) }

// remove does what process does when a page is deleted.
func (m *model) remove(url string) {
	if _, document := m.links[url]; document {
		delete(m.links, url)
		m.send(url, Contribution{Links: true})
	}
	if _, redirect := m.redirects[url]; redirect {
		delete(m.redirects, url)
		m.reroutes = append(m.reroutes, url)
	}
}

// edit makes a random change of a page.
func (m *model) edit(urls int) {
	name := func() string { return fmt.Sprint("u", m.random.IntN(urls)) }
	url := name()
	m.remove(url)
	switch m.random.IntN(8) {
	case 0:
	case 1, 2:
		m.redirects[url] = name()
		m.reroutes = append(m.reroutes, url)
	default:
		m.links[url] = []page.Link{}
		for range m.random.IntN(5) {
			m.links[url] = append(m.links[url], page.Link{Target: name()})
		}
		m.send(url, Contribution{Links: true})
	}
}

// step lets an observer run: reroute, or a fold of a random part of what is queued, which has read
// the accounts of random URLs, and has room for few names.
func (m *model) step() {
	if n := len(m.reroutes); n > 0 && (len(m.queue) == 0 || m.random.IntN(4) == 0) {
		i := m.random.IntN(n)
		url := m.reroutes[i]
		m.reroutes = slices.Delete(m.reroutes, i, i+1)
		m.reroute(url)
		return
	}
	f := fold{pending: Contributions{}, accounts: map[string]*folded{}, room: m.random.IntN(500)}
	taken := m.queue[:0:0]
	m.queue = slices.DeleteFunc(m.queue, func(c Contributions) bool {
		if len(taken) > 0 && m.random.IntN(3) == 0 {
			return false
		}
		taken = append(taken, c)
		return true
	})
	for _, c := range taken {
		f.pending = combine(f.pending, c)
	}
	for url := range f.pending { // any of them, and any others, as if they had been read
		for _, read := range []string{url, fmt.Sprint("u", m.random.IntN(10))} {
			if m.random.IntN(3) == 0 {
				continue
			}
			links, document := m.links[read]
			before := m.accounts[read]
			a := &folded{before: before, after: before, document: document, to: before.to}
			if f.pending[read].Links {
				a.to = ends(m.redirects, read, links)
			}
			f.accounts[read] = a
		}
	}
	f.settle()
	for url, a := range f.accounts {
		if a.settled {
			m.accounts[url] = a.after
		}
	}
	for _, url := range slices.Sorted(maps.Keys(f.pending)) {
		m.send(url, f.pending[url])
	}
}

// reroute finds whose links lead to a URL, through redirects.
func (m *model) reroute(url string) {
	leads := func(from string) bool {
		for range len(m.redirects) + 1 {
			if from == url {
				return true
			}
			from = m.redirects[from]
		}
		return false
	}
	for source, links := range m.links {
		if slices.ContainsFunc(links, func(l page.Link) bool { return leads(l.Target) }) {
			m.send(source, Contribution{Links: true})
		}
	}
}

// check compares with power iteration, and balances the accounts.
func (m *model) check(t *testing.T, when string) {
	t.Helper()
	rank, due := map[string]float64{}, map[string]int64{}
	for range 500 {
		next := map[string]float64{}
		for url, links := range m.links {
			next[url] += 1 - Damping
			to := ends(m.redirects, url, links)
			for _, target := range to {
				if _, document := m.links[target]; document {
					next[target] += Damping * rank[url] / float64(len(to))
				}
			}
		}
		rank = next
	}
	for _, a := range m.accounts {
		for _, url := range a.to {
			due[url] += Share(a.Rank, len(a.to))
		}
	}
	for _, url := range slices.Sorted(maps.Keys(m.accounts)) {
		a := m.accounts[url]
		if a.Received != due[url] {
			t.Errorf("%s: %s has received %d units, and %d were passed on to it", when, url, a.Received, due[url])
		}
		links, document := m.links[url]
		if !document {
			if a.Rank != 0 || a.to != nil {
				t.Errorf("%s: %s has the rank %d and is no document", when, url, a.Rank)
			}
			continue
		}
		if !slices.Equal(a.to, ends(m.redirects, url, links)) {
			t.Errorf("%s: %s passes its rank on to %q", when, url, a.to)
		}
		if got := RankValue(a.Rank); math.Abs(got-rank[url]) > Tolerance*rank[url] {
			t.Errorf("%s: rank of %s is %.6f, PageRank is %.6f", when, url, got, rank[url])
		}
	}
}

// TestAnyOrderEndsAtPageRank changes random webs at random, lets observers run in random order
// meanwhile, and in the end for as long as they have work. There always is an end, and ranks are
// then as good as promised.
func TestAnyOrderEndsAtPageRank(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		m := newModel(seed)
		urls := 3 + m.random.IntN(25)
		for round := range 3 {
			for range m.random.IntN(3 * urls) {
				m.edit(urls)
				for range m.random.IntN(6) {
					if len(m.queue)+len(m.reroutes) > 0 {
						m.step()
					}
				}
			}
			steps := 0
			for ; len(m.queue)+len(m.reroutes) > 0; steps++ {
				if m.step(); steps > 1_000_000 {
					t.Fatalf("web %d, round %d: there is no end", seed, round)
				}
			}
			m.check(t, fmt.Sprintf("web %d, round %d", seed, round))
		}
	}
}

// TestToleranceIsNeeded: a web in which every document keeps back all that it may is as far from
// PageRank as Tolerance says, so nothing narrower would do.
func TestToleranceIsNeeded(t *testing.T) {
	t.Parallel()
	rank := int64(0) // of all pages of a cycle, whose PageRanks are 1
	for range 1000 {
		rank = RankFor(Share(rank, 1)) - Epsilon
	}
	if off := 1 - RankValue(rank); off > Tolerance || off < 0.99*Tolerance {
		t.Errorf("ranks in a cycle are off by %.4f, the tolerance is %.4f", off, Tolerance)
	}
}

func TestSharesAreDamped(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rank int64
		n    int
		want int64
	}{
		{0, 3, 0}, {Unit, 0, 0}, {Unit, 1, 850_000_000}, {Unit, 3, 283_333_333}, {39, 1, 33},
		{math.MaxInt64, 1, math.MaxInt64/20*17 + 5},
	} {
		if got := Share(test.rank, test.n); got != test.want {
			t.Errorf("share of %d among %d is %d, want %d", test.rank, test.n, got, test.want)
		}
	}
	if RankFor(-5) != Base || RankFor(5) != Base+5 {
		t.Error("a rank is less than its base, or not what was received on top of it")
	}
}
