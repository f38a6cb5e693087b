package index_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/webtest"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

const (
	home   = "http://a.test/"
	other  = "http://b.test/"
	third  = "http://c.test/"
	target = "http://t.test/"
	mirror = "http://mirror.test/"
)

// served is what the search page would show of a URL.
type served struct {
	Sources int // pages that link to it
	Anchors []index.Anchor
}

func show(w *webtest.Web, url string) *served {
	if webtest.Value(w, index.Served, url) == "" {
		return nil
	}
	return &served{sources(w, url), webtest.Value(w, index.ServedAnchors, url)}
}

// remove deletes a page.
func remove(w *webtest.Web, url string) {
	w.Update(func(ctx context.Context, tx *percolator.Txn) error { return index.Delete(ctx, tx, url) })
}

// runs is how many runs of observers have committed.
func runs(w *webtest.Web) (n int64) {
	for _, worker := range w.Workers {
		n += worker.Stats().Runs
	}
	return n
}

// merges is how many runs have merged segments.
func merges(w *webtest.Web) (n int64) {
	for _, worker := range w.Workers {
		n += worker.Stats().Observers["merge"].Runs
	}
	return n
}

// sources is how many pages link to a URL.
func sources(w *webtest.Web, url string) (n int) {
	w.View(func(ctx context.Context, snap *percolator.Snapshot) error {
		in, err := index.CollectInLinks(ctx, snap, url)
		if err == nil {
			n = len(in[0])
		}
		return err
	})
	return n
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func anchors(list ...index.Anchor) []index.Anchor { return list }

func TestCanonicalTakesItsAnchorsAlong(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 1)
	same := webtest.Page("Same", "the same words")
	w.Put(target, same)
	w.Put(mirror, same)
	w.Put(home, webtest.Page("Home", "first", target+" original"))
	w.Check()
	want(t, "canonical with one link", show(w, target), &served{1, anchors(index.Anchor{Text: "original", Links: 1})})
	want(t, "duplicate with no link", show(w, mirror), (*served)(nil))

	w.Put(other, webtest.Page("Other", "second", mirror+" copy"))
	w.Put(third, webtest.Page("Third", "third", mirror+" copy"))
	w.Check()
	want(t, "canonical with fewer links than the duplicate", show(w, target), (*served)(nil))
	want(t, "duplicate with more links", show(w, mirror), &served{2, anchors(
		index.Anchor{Text: "copy", Links: 2}, index.Anchor{Text: "original", Links: 1})})

	w.Put(third, webtest.Page("Third", "third, without its link"))
	w.Check()
	want(t, "of equals, the smaller URL", show(w, target), (*served)(nil))
	want(t, "of equals, the smaller URL", show(w, mirror), &served{1, anchors(
		index.Anchor{Text: "copy", Links: 1}, index.Anchor{Text: "original", Links: 1})})

	w.Put(mirror, webtest.Page("Mirror", "has words of its own now"))
	w.Check()
	want(t, "the one that remains", show(w, target), &served{1, anchors(index.Anchor{Text: "original", Links: 1})})
	want(t, "the one that left", show(w, mirror), &served{1, anchors(index.Anchor{Text: "copy", Links: 1})})
}

func TestLinksThatDoNotCount(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 1)
	w.Put(target, webtest.Page("Target", "links to itself", target+"#top up", "/r round"))
	w.Redirect(target+"r", target)
	w.Put(home, webtest.Page("Home", "links twice", target+" one", target+"#two two", target+"r three"))
	w.Load(other, 404, http.Header{"Content-Type": {"text/html"}}, webtest.Page("Gone", "an error", target+" error"))
	w.Load(third, 200, http.Header{"Content-Type": {"image/png"}}, webtest.Page("Picture", "no HTML", target+" picture"))
	w.Check()
	want(t, "target", show(w, target), &served{1, anchors(
		index.Anchor{Text: "one", Links: 1}, index.Anchor{Text: "three", Links: 1}, index.Anchor{Text: "two", Links: 1})})
	want(t, "an error page", show(w, other), (*served)(nil))
	want(t, "a picture", show(w, third), (*served)(nil))
}

func TestRedirectsForward(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 1)
	r1, r2 := "http://r.test/1", "http://r.test/2"
	w.Put(target, webtest.Page("Target", "at the end"))
	w.Put(home, webtest.Page("Home", "links to a chain", r1+" far"))
	w.Check()
	want(t, "before there is a chain", show(w, target), &served{0, nil})

	w.Redirect(r2, target)
	w.Redirect(r1, r2)
	w.Check()
	want(t, "behind a chain", show(w, target), &served{1, anchors(index.Anchor{Text: "far", Links: 1})})

	// A link that comes later is forwarded too.
	w.Put(other, webtest.Page("Other", "links to the middle", r2+" near"))
	w.Check()
	want(t, "behind a chain with two links", show(w, target), &served{2, anchors(
		index.Anchor{Text: "far", Links: 1}, index.Anchor{Text: "near", Links: 1})})

	// The chain becomes a circle: nothing is forwarded any more, and nobody walks in it for ever.
	w.Redirect(r2, r1)
	w.Check()
	want(t, "beside a circle", show(w, target), &served{0, nil})
	w.Put(third, webtest.Page("Third", "links into the circle", r1+" circle"))
	w.Check()

	// A redirect becomes a document with the links that it had forwarded.
	w.Put(r1, webtest.Page("First", "a document now"))
	w.Check()
	want(t, "a document that was a redirect", show(w, r1), &served{3, anchors(
		index.Anchor{Text: "circle", Links: 1}, index.Anchor{Text: "far", Links: 1}, index.Anchor{Text: "near", Links: 1})})

	// And a document becomes a redirect.
	w.Redirect(target, r1)
	w.Put(home, webtest.Page("Home", "links to what was a document", target+" old"))
	w.Check()
	want(t, "a redirect that was a document", show(w, target), (*served)(nil))
	want(t, "what it leads to", show(w, r1), &served{3, anchors(
		index.Anchor{Text: "circle", Links: 1}, index.Anchor{Text: "near", Links: 1}, index.Anchor{Text: "old", Links: 1})})
}

// TestRedirectPassesOnWhatItNeverCounted: the target of a redirect may count a link to it before
// the redirect's own observer has run. When the link is gone by then, that observer finds
// everything as it was, and has to tell the target all the same.
func TestRedirectPassesOnWhatItNeverCounted(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRedirectPassesOnWhatItNeverCounted)
}

func testRedirectPassesOnWhatItNeverCounted(t *testing.T) {
	w := webtest.New(t, 0)
	onlyProcess := w.Start(w.Client, observers.Column{Table: index.Documents, Name: index.Response.Name})
	processed := func(pages int64) {
		for ctx := w.Context(); onlyProcess.Stats().Observers["process"].Cells < pages; time.Sleep(time.Millisecond) {
			if err := ctx.Err(); err != nil {
				t.Fatalf("%d of %d pages processed: %v", onlyProcess.Stats().Observers["process"].Cells, pages, err)
			}
		}
	}
	old := "http://old.test/"
	w.Put(target, webtest.Page("Target", "at the end"))
	w.Redirect(old, target)
	w.Put(home, webtest.Page("Home", "links to the redirect", old+" old"))
	processed(3)
	counted, err := w.Client.Update(w.Context(), func(ctx context.Context, tx *percolator.Txn) error {
		return index.Publish(ctx, tx, []observers.Change{{Cell: index.Export.Cell(target), Weak: true}})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, cell := range []percolator.Cell{index.Relink.Cell(target), index.Export.Cell(target)} {
		if err := admin.New(w.Client).ClearNotification(w.Context(), cell, counted); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "through a redirect", webtest.Value(w, index.ServedAnchors, target), anchors(index.Anchor{Text: "old", Links: 1}))
	w.Put(home, webtest.Page("Home", "links to nothing"))
	processed(4)
	w.Workers = append(w.Workers, w.Start(w.Env.NewClient()))
	w.Check()
	want(t, "target", show(w, target), &served{0, nil})
}

func TestDeletedPagesLeaveNothing(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 1)
	same := webtest.Page("Same", "the same words")
	w.Put(target, same)
	w.Put(mirror, same)
	w.Put(home, webtest.Page("Home", "first", target+" original", mirror+" copy"))
	w.Put(other, webtest.Page("Other", "second", mirror+" copy"))
	w.Check()
	remove(w, mirror)
	w.Check()
	want(t, "deleted", show(w, mirror), (*served)(nil))
	want(t, "its successor", show(w, target), &served{1, anchors(index.Anchor{Text: "original", Links: 1})})
	remove(w, home)
	w.Check()
	want(t, "after its only link was deleted", show(w, target), &served{0, nil})
	if n := w.Put(mirror, same); !n {
		t.Error("a page that was deleted is not new when it comes back")
	}
	w.Check()
	want(t, "back again, its link remembered", show(w, mirror), &served{1, anchors(index.Anchor{Text: "copy", Links: 1})})

	for _, url := range []string{target, mirror, other} {
		remove(w, url)
	}
	w.Check()
	w.View(func(ctx context.Context, snap *percolator.Snapshot) error {
		for _, table := range index.Schema().Tables {
			for e, err := range snap.Scan(ctx, table.Name, percolator.All()) {
				if err != nil {
					return err
				}
				if table.Name != index.Segments { // they say that no document has these terms any more
					t.Errorf("left in the store after everything was deleted: %s", e.Cell)
				}
			}
		}
		return nil
	})
	_, err := w.Client.Update(w.Context(), func(ctx context.Context, tx *percolator.Txn) error { return index.Delete(ctx, tx, home) })
	if !errors.Is(err, percolator.ErrNotFound) {
		t.Errorf("deleting a page that is not there: %v, want ErrNotFound", err)
	}
}

// site makes n pages that link to the next few, with a page that all link to.
func site(w *webtest.Web, n int, version func(i int) int) {
	for i := range n {
		w.Put(fmt.Sprintf("http://site.test/%03d", i), webtest.Page(
			fmt.Sprintf("Page %d", i), fmt.Sprintf("number%d version%d and some words that all of them have", i, version(i)),
			"/000 start", fmt.Sprintf("/%03d next", (i+1)%n), fmt.Sprintf("/%03d after", (i+2)%n)))
	}
}

func TestReloadProcessesNothing(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 1)
	site(w, 20, func(int) int { return 1 })
	w.Check()
	before, ran := w.Client.Stats(), runs(w)
	if before.Transactions == 0 || ran == 0 {
		t.Fatalf("%d transactions, %d runs: the first load did nothing", before.Transactions, ran)
	}
	site(w, 20, func(int) int { return 1 })
	w.Check()
	after := w.Client.Stats()
	want(t, "transactions", after.Transactions, before.Transactions)
	want(t, "notifications", after.Notifications, before.Notifications)
	want(t, "observer runs", runs(w), ran)
}

func TestWorkIsProportionalToTheChange(t *testing.T) {
	t.Parallel()
	const pages = 40
	w := webtest.New(t, 1)
	site(w, pages, func(int) int { return 1 })
	w.Check()
	before, ran, merged := w.Client.Stats(), runs(w), merges(w)
	site(w, pages, func(i int) int {
		if i == 20 {
			return 2
		}
		return 1
	})
	w.Check()
	// One page with the same links: load, process, export; its old cluster has nothing left to
	// choose from.
	if n := runs(w) - ran - merges(w) + merged; n > 4 { // segments are merged now and then
		t.Errorf("%d observer runs for one changed page of %d, want at most 4: %v", n, pages, w.Workers[0].Stats().Observers)
	}
	if n := w.Client.Stats().Transactions - before.Transactions - merges(w) + merged; n > 4 {
		t.Errorf("%d transactions for one changed page of %d, want at most 4", n, pages)
	}
}

func TestHeaderChangeKeepsTheCluster(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 1)
	body := webtest.Page("Same", "plain words")
	w.Put(target, body)
	w.Check()
	hash := webtest.Value(w, index.Served, target)
	if !w.Load(target, 200, http.Header{"Content-Type": {"text/html"}}, body) {
		t.Error("another Content-Type is not a change")
	}
	w.Check()
	want(t, "cluster", webtest.Value(w, index.Served, target), hash)
	if w.Load(target, 200, http.Header{"Content-Type": {"text/html"}, "Date": {"today"}}, body) {
		t.Error("another Date is a change")
	}
}
