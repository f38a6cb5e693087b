package index_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/webtest"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
)

// checkInstant checks what has to hold in every snapshot, whatever the observers are doing: each
// processed document has exactly one entry, in the cluster of its content; each entry has its
// document; each canonical URL has its entry; no part of a rank is lost.
func checkInstant(ctx context.Context, snap *percolator.Snapshot) error {
	hashes, entries := map[string]string{}, map[string]bool{}
	for e, err := range index.Hash.Scan(ctx, snap, percolator.All()) {
		if err != nil {
			return err
		}
		hashes[e.Cell.Row] = e.Value
	}
	for e, err := range members(ctx, snap) {
		if err != nil {
			return err
		}
		url, _ := index.MemberURL(e.Cell.Column)
		if hash := e.Cell.Row; hashes[url] != hash {
			return fmt.Errorf("%s has an entry in cluster %.8s, and belongs to %.8s", url, hash, hashes[url])
		}
		entries[url] = true
	}
	for url := range hashes {
		if !entries[url] {
			return fmt.Errorf("%s has no entry in its cluster", url)
		}
	}
	for e, err := range index.Canonical.Scan(ctx, snap, percolator.All()) {
		if err != nil {
			return err
		}
		if hashes[e.Value] != e.Cell.Row {
			return fmt.Errorf("cluster %.8s has the canonical URL %s, which is not a member", e.Cell.Row, e.Value)
		}
	}
	if err := checkShared(ctx, snap); err != nil {
		return err
	}
	return errors.Join(checkSegments(ctx, snap), checkBalance(ctx, snap))
}

// members are the entries of all clusters.
func members(ctx context.Context, snap *percolator.Snapshot) iter.Seq2[percolator.Entry, error] {
	return snap.ScanWith(ctx, index.Clusters, percolator.ScanOptions{ColumnRanges: []percolator.Range{percolator.Prefix("member:")}})
}

// checkShared checks that a cluster has no member but its canonical URL unless it is marked: others
// look no further.
func checkShared(ctx context.Context, snap *percolator.Snapshot) error {
	of, canonical := map[string][]string{}, map[string]string{}
	for e, err := range members(ctx, snap) {
		if err != nil {
			return err
		}
		url, _ := index.MemberURL(e.Cell.Column)
		of[e.Cell.Row] = append(of[e.Cell.Row], url)
	}
	for e, err := range index.Canonical.Scan(ctx, snap, percolator.All()) {
		if err != nil {
			return err
		}
		canonical[e.Cell.Row] = e.Value
	}
	for e, err := range index.Shared.Scan(ctx, snap, percolator.All()) {
		if err != nil {
			return err
		}
		delete(of, e.Cell.Row)
	}
	for hash, urls := range of {
		if len(urls) > 1 || urls[0] != canonical[hash] {
			return fmt.Errorf("cluster %.8s has the members %q and the canonical URL %q, and is not marked as shared", hash, urls, canonical[hash])
		}
	}
	return nil
}

// checkBalance checks the account of ranks, to the unit: what a URL has received, and what is
// queued for it, is together what documents have passed on to it.
func checkBalance(ctx context.Context, snap *percolator.Snapshot) error {
	balance := map[string]int64{}
	for e, err := range snap.Scan(ctx, index.RankAccounts, percolator.All()) {
		if err != nil {
			return err
		}
		url, passedTo := index.AccountURL(e.Cell.Column)
		a, err := index.AccountOf(url).GetOr(ctx, snap, e.Cell.Row, index.Account{})
		if err != nil {
			return err
		}
		if !passedTo {
			balance[url] -= a.Received
			continue
		}
		to, err := index.PassedTo(url).Decode(e.Cell.Row, e.Value)
		if err != nil {
			return err
		}
		for _, t := range to {
			balance[t] += index.Share(a.Rank, len(to))
		}
	}
	for sum, err := range index.Passing.All(ctx, snap) {
		if err != nil {
			return err
		}
		for url, c := range sum.Value {
			balance[url] -= c.Rank
		}
	}
	for url, n := range balance {
		if n != 0 {
			return fmt.Errorf("%s lacks %d units of what was passed on to it", url, n)
		}
	}
	return nil
}

// checkSegments: a term is found in exactly the documents that the search page shows and that have
// it, whatever segments say so.
func checkSegments(ctx context.Context, snap *percolator.Snapshot) error {
	have := map[string]map[string]int{}
	for e, err := range index.ServedTerms.Scan(ctx, snap, percolator.All()) {
		if err != nil {
			return err
		}
		for term, n := range e.Value {
			if have[term] == nil {
				have[term] = map[string]int{}
			}
			have[term][e.Cell.Row] = n
		}
	}
	terms := maps.Clone(have)
	for e, err := range snap.Scan(ctx, index.Segments, percolator.Prefix("0.")) {
		if err != nil {
			return err
		}
		if e.Cell.Column == index.SegmentBytes.Name {
			continue
		}
		said, err := index.PostingsIn(e.Cell.Column).Decode(e.Cell.Row, e.Value)
		if err != nil {
			return err
		}
		for term := range said {
			terms[term] = have[term] // also those that no document has
		}
	}
	for term := range terms {
		found, partial, err := index.Lookup(ctx, snap, term, 1000)
		if err != nil || partial || !maps.Equal(found, have[term]) {
			return fmt.Errorf("term %q is found %v, and documents have it %v (%v)", term, found, have[term], err)
		}
	}
	return nil
}

// TestInvariantsAtEveryInstant changes a small web at random, with few URLs and fewer contents so
// that everything collides, while two workers are at it, and looks at as many snapshots as it can
// meanwhile.
func TestInvariantsAtEveryInstant(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	w := webtest.New(t, 2)
	random := rand.New(rand.NewPCG(2010, 10))
	var changing atomic.Bool
	changing.Store(true)
	looked := make(chan int)
	go func() {
		n := 0
		for ; changing.Load() || n == 0; n++ {
			if err := w.Client.View(w.Context(), checkInstant); err != nil {
				t.Errorf("snapshot %d: %v", n, err)
				break
			}
		}
		looked <- n
	}()
	for range 3 {
		for range 20 {
			change(w, random)
		}
		w.Check() // also that the index is right whenever nothing is left to do
	}
	changing.Store(false)
	n := <-looked
	w.View(checkInstant)
	t.Logf("%d snapshots, %d observer runs, %d conflicts", n, runs(w), w.Client.Stats().Conflicts)
}

// change makes one random change.
func change(w *webtest.Web, random *rand.Rand) {
	const urls = 8
	url := func() string { return fmt.Sprintf("http://x.test/%d", random.IntN(urls)) }
	at := url()
	switch random.IntN(10) {
	case 0:
		known := false
		w.View(func(ctx context.Context, snap *percolator.Snapshot) error {
			d, err := index.Digest.GetOr(ctx, snap, at, "")
			known = d != ""
			return err
		})
		if known {
			remove(w, at)
		}
	case 1, 2:
		w.Redirect(at, url())
	case 3:
		w.Load(at, 500, nil, "")
	default:
		var links []string
		for range random.IntN(4) {
			links = append(links, fmt.Sprintf("%s anchor%d", url(), random.IntN(3)))
		}
		// The links are a function of the content, so that two URLs often have the same one.
		if random.IntN(2) == 0 {
			links = nil
		}
		w.Put(at, webtest.Page("Title", fmt.Sprintf("content%d", random.IntN(3)), links...))
	}
}
