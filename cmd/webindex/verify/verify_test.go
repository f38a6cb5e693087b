package verify_test

import (
	"context"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/verify"
	"github.com/gopercolator/percolator/cmd/webindex/webtest"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

const (
	home   = "http://a.test/"
	target = "http://t.test/"
	mirror = "http://u.test/"
	moved  = "http://moved.test/"
	absent = "http://absent.test/"
)

// smallWeb has a cluster of two, a redirect and links of both kinds.
func smallWeb(t *testing.T) *webtest.Web {
	w := webtest.New(t, 1)
	w.Put(target, webtest.Page("Same", "the same words"))
	w.Put(mirror, webtest.Page("Same", "the same words"))
	w.Put(home, webtest.Page("Home", "a page", target+" the target", moved+" old name"))
	w.Redirect(moved, target)
	w.Check()
	return w
}

// TestFindsPlantedDifferences changes one thing behind the observers' backs at a time. Verify has
// to name it, with the row, and nothing that is right.
func TestFindsPlantedDifferences(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	w := smallWeb(t)
	hash := webtest.Value(w, index.Hash, target)
	otherHash := webtest.Value(w, index.Hash, home)
	type find struct{ what, row string }
	for _, test := range []struct {
		name  string
		plant func(tx *percolator.Txn) error
		want  []find
	}{
		{"digest", func(tx *percolator.Txn) error { return index.Digest.Set(tx, target, "wrong") },
			[]find{{"digest", target}}},
		{"digest of no response", func(tx *percolator.Txn) error { return index.Digest.Set(tx, absent, "wrong") },
			[]find{{"digest", absent}}},
		{"hash", func(tx *percolator.Txn) error { return index.Hash.Set(tx, mirror, otherHash) },
			[]find{{"cluster", mirror}}},
		{"missing hash", func(tx *percolator.Txn) error { return index.Hash.Delete(tx, mirror) },
			[]find{{"cluster", mirror}}},
		{"title", func(tx *percolator.Txn) error {
			return index.Derived.Set(tx, target, index.Content{Title: "Wrong"})
		}, []find{{"title in content", target}, {"text in content", target}}},
		{"terms", func(tx *percolator.Txn) error {
			return index.Terms.Set(tx, target, map[string]int{"the": 1})
		}, []find{{"terms", target}}},
		{"outgoing links", func(tx *percolator.Txn) error { return index.OutLinks.Delete(tx, home) },
			[]find{{"outgoing links", home}}},
		{"redirect", func(tx *percolator.Txn) error { return index.Redirect.Set(tx, moved, mirror) },
			[]find{{"redirect", moved}}},
		{"rank", account(target, func(a *index.Account) { a.Rank = 7 * index.Unit }), []find{{"rank", target}}},
		{"rank just beyond the tolerance", account(target, func(a *index.Account) {
			a.Rank = index.Base + index.Share(index.Base, 1) + 14*index.Unit/1000 // 5.04 % more than 0.2775
		}), []find{{"rank", target}}},
		{"rank within the tolerance, undistributed", account(target, func(a *index.Account) {
			a.Rank = index.Base + index.Share(index.Base, 1) - index.Epsilon - 1
		}), []find{{"undistributed rank", target}}},
		{"rank that was passed on", account(home, func(a *index.Account) { a.Rank = index.Base + 40 }), []find{{"received rank", target}}},
		{"no rank", account(mirror, func(a *index.Account) { a.Rank = 0 }), []find{{"rank", mirror}}},
		{"received rank", account(target, func(a *index.Account) { a.Received-- }), []find{{"received rank", target}}},
		{"received rank of nobody", account(absent, func(a *index.Account) { a.Received = 1 }), []find{{"received rank", absent}}},
		{"passed to somebody else", func(tx *percolator.Txn) error {
			return index.PassedTo(home).Set(tx, index.Block(home), []string{absent})
		}, []find{{"passed to", home}, {"received rank", absent}, {"received rank", target}}},
		{"passed on by no document", func(tx *percolator.Txn) error {
			return index.PassedTo(absent).Set(tx, index.Block(absent), []string{home})
		}, []find{{"passed to", absent}}},
		{"rank of no document", account(absent, func(a *index.Account) { a.Rank = 7 }), []find{{"rank", absent}}},
		{"a duplicate whose account does not say so", account(mirror, func(a *index.Account) { a.Shared = false }),
			[]find{{"account that shares a cluster", mirror}}},
		{"an account in a wrong row", func(tx *percolator.Txn) error {
			return index.AccountOf(absent).Set(tx, index.Block(absent)+"x", index.Account{Rank: 1})
		}, []find{{"account", absent}}},
		{"anchors", func(tx *percolator.Txn) error {
			return index.ServedAnchors.Set(tx, target, []index.Anchor{{Text: "spam", Links: 1}})
		}, []find{{"serving anchors", target}}},
		{"unreadable anchors", func(tx *percolator.Txn) error {
			return tx.Set(index.ServedAnchors.Cell(target), []byte("not JSON"))
		}, []find{{"serve:anchors", target}, {"serving anchors", target}}},
		{"entry without document", func(tx *percolator.Txn) error {
			return index.Member(home).Set(tx, hash, nil)
		}, []find{{"entry in cluster", home}}},
		{"document without entry", func(tx *percolator.Txn) error {
			return index.Member(mirror).Delete(tx, hash)
		}, []find{{"entry in cluster", mirror}}},
		{"canonical", func(tx *percolator.Txn) error { return index.Canonical.Set(tx, hash, mirror) },
			[]find{{"canonical", hash}}},
		{"no canonical", func(tx *percolator.Txn) error { return index.Canonical.Delete(tx, hash) },
			[]find{{"canonical", hash}}},
		{"canonical of no cluster", func(tx *percolator.Txn) error { return index.Canonical.Set(tx, "feed", home) },
			[]find{{"canonical", "feed"}}},
		{"duplicates without a mark", func(tx *percolator.Txn) error { return index.Shared.Delete(tx, hash) },
			[]find{{"shared", hash}}},
		{"mark of no duplicates", func(tx *percolator.Txn) error { return index.Shared.Set(tx, "feed", nil) },
			[]find{{"shared", "feed"}}},
		{"link with another text", func(tx *percolator.Txn) error {
			return index.LinkAnchors(home).Set(tx, target, []string{"spam"})
		}, []find{{"link", home + " → " + target}}},
		{"missing link", func(tx *percolator.Txn) error {
			return index.LinkAnchors(home).Delete(tx, target)
		}, []find{{"link", home + " → " + target}}},
		{"link of no page", func(tx *percolator.Txn) error {
			return index.LinkAnchors(absent).Set(tx, target, []string{"spam"})
		}, []find{{"link", absent + " → " + target}}},
		{"missing redirect", func(tx *percolator.Txn) error {
			return index.LinkRedirect(moved).Delete(tx, target)
		}, []find{{"redirect", moved + " → " + target}}},
		{"redirect of no page", func(tx *percolator.Txn) error {
			return index.LinkRedirect(absent).Set(tx, home, nil)
		}, []find{{"redirect", absent + " → " + home}}},
		{"duplicate in the serving table", func(tx *percolator.Txn) error { return index.Served.Set(tx, mirror, hash) },
			[]find{{"serving document", mirror}}},
		{"document that is not served", func(tx *percolator.Txn) error {
			for _, c := range []percolator.Cell{
				index.Served.Cell(home), index.ServedContent.Cell(home), index.ServedTerms.Cell(home), index.ServedAnchors.Cell(home),
			} {
				if err := tx.Delete(c); err != nil {
					return err
				}
			}
			return nil
		}, []find{{"serving document", home}}},
		{"served title", func(tx *percolator.Txn) error {
			return index.ServedContent.Set(tx, home, index.Content{Title: "Wrong", Excerpt: "a page the target old name"})
		}, []find{{"title in serving document", home}}},
		{"served terms", func(tx *percolator.Txn) error { return index.ServedTerms.Delete(tx, home) },
			[]find{{"serving terms", home}}},
		{"served hash", func(tx *percolator.Txn) error { return index.Served.Set(tx, home, hash) },
			[]find{{"serving cluster", home}}},
		{"served anchors", func(tx *percolator.Txn) error { return index.ServedAnchors.Delete(tx, target) },
			[]find{{"serving anchors", target}}},
		{"posting with another frequency", segment(youngest, "home", home, 9), []find{{"posting", "home in " + home}}},
		{"missing posting", segment(youngest, "home", home, 0), []find{{"posting", "home in " + home}}},
		{"posting of a term that the page has not", segment(youngest, "spam", home, 1), []find{{"posting", "spam in " + home}}},
		{"posting in a wrong row", segment(index.Segment{Level: 1, Part: 1 ^ index.PartOf(1, "home"), ID: 1}, "home", home, 1),
			[]find{{"segment", index.Segment{Level: 1, Part: 1 ^ index.PartOf(1, "home"), ID: 1}.Row()}}},
		{"posting in a wrong cell", func(tx *percolator.Txn) error {
			return index.PostingsOf("away").Set(tx, youngest.Row(), index.Postings{"home": {home: 1}})
		}, []find{{"segment", youngest.Row()}}},
		{"posting of a duplicate", segment(youngest, "same", mirror, 1), []find{{"posting", "same in " + mirror}}},
	} {
		before := dump(w)
		w.Update(func(_ context.Context, tx *percolator.Txn) error { return test.plant(tx) })
		var got []find
		for _, d := range w.Differences() {
			got = append(got, find{d.What, d.Row})
			if d.Want == d.Got {
				t.Errorf("%s: the difference names none: %v", test.name, d)
			}
		}
		restore(w, before)
		if len(got) != len(test.want) {
			t.Errorf("%s: found %q, want %q", test.name, got, test.want)
			continue
		}
		for i, f := range test.want {
			if got[i] != f {
				t.Errorf("%s: found %q, want %q", test.name, got[i], f)
			}
		}
	}
	w.Check() // after all that was restored
}

// account changes the account of a URL.
func account(url string, f func(*index.Account)) func(*percolator.Txn) error {
	return func(tx *percolator.Txn) error {
		a, err := index.AccountOf(url).GetOr(context.Background(), tx, index.Block(url), index.Account{})
		if err != nil {
			return err
		}
		f(&a)
		return index.AccountOf(url).Set(tx, index.Block(url), a)
	}
}

// youngest is right whatever other segments say.
var youngest = index.Segment{ID: tso.MaxTimestamp}

// segment plants a segment with one posting.
func segment(s index.Segment, term, url string, n int) func(*percolator.Txn) error {
	return func(tx *percolator.Txn) error {
		return index.PostingsOf(term).Set(tx, s.Row(), index.Postings{term: {url: n}})
	}
}

// TestFindsUnprocessedPages: what the observers have not done yet is a difference too.
func TestFindsUnprocessedPages(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 0)
	w.Put(home, webtest.Page("Home", "a page", target+" the target"))
	kinds := map[string]int{}
	for _, d := range w.Differences() {
		kinds[d.What]++
	}
	for _, kind := range []string{"cluster", "canonical", "entry in cluster", "link", "serving document", "posting"} {
		if kinds[kind] == 0 {
			t.Errorf("no difference of kind %q in a store without workers: %v", kind, kinds)
		}
	}
}

func TestDifferenceIsOneLine(t *testing.T) {
	t.Parallel()
	d := verify.Difference{What: "title", Row: "http://a.test/\x1b[2J", Want: "line\nbreak", Got: strings.Repeat("long ", 1000)}
	s := d.String()
	if strings.ContainsAny(s, "\n\x1b") || len(s) > 1000 {
		t.Errorf("a difference of %d bytes: %q", len(s), s)
	}
}

// dump copies everything but the raw responses, whose restoration would set the observers to work.
func dump(w *webtest.Web) map[percolator.Cell][]byte {
	cells := map[percolator.Cell][]byte{}
	w.View(func(ctx context.Context, snap *percolator.Snapshot) error {
		for _, table := range index.Schema().Tables {
			for e, err := range snap.Scan(ctx, table.Name, percolator.All()) {
				if err != nil {
					return err
				}
				if e.Cell.Column != index.Response.Name {
					cells[e.Cell] = e.Value
				}
			}
		}
		return nil
	})
	return cells
}

// restore undoes what was changed since dump.
func restore(w *webtest.Web, before map[percolator.Cell][]byte) {
	after := dump(w)
	w.Update(func(_ context.Context, tx *percolator.Txn) error {
		for cell, value := range before {
			if now, ok := after[cell]; !ok || string(now) != string(value) {
				if err := tx.Set(cell, value); err != nil {
					return err
				}
			}
		}
		for cell := range after {
			if _, ok := before[cell]; !ok {
				if err := tx.Delete(cell); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
