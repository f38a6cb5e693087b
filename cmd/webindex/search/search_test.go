package search_test

import (
	"context"
	"flag"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/search"
	"github.com/gopercolator/percolator/cmd/webindex/webtest"
	"github.com/gopercolator/percolator/percolator"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	home   = "http://a.example.org/" // a host that the web has; the others are reserved names
	target = "http://t.test/guide?v=1&x=2"
	mirror = "http://u.test/copy"
	moved  = "http://moved.test/"
	absent = "http://absent.test/"
)

func newSite(t *testing.T) (*webtest.Web, *search.Server) {
	w := webtest.New(t, 1)
	guide := webtest.Page("A guide to <b>lighthouses", "Lamps & lenses of every lighthouse, and who keeps the lamps.")
	w.Put(target, guide)
	w.Put(mirror, guide)
	w.Put(home, webtest.Page("Home", "Nothing but lamps here.", target+" the guide", moved+` <img src=x onerror="alert(1)">`, absent+" nobody"))
	w.Redirect(moved, target)
	w.Put("http://z.test/", webtest.Page("", "lamps without a title"))
	w.Check()
	return w, search.NewServer(w.Client, slog.New(slog.NewTextHandler(io.Discard, nil)))
}

func get(t *testing.T, s http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return rec
}

// variable is what differs from run to run.
var variable = regexp.MustCompile(`\d+ ms|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})? UTC|at=\d+`)

// TestPagesMatchTheirFiles compares whole pages with files that were looked at once. Write them
// anew with -update.
func TestPagesMatchTheirFiles(t *testing.T) {
	t.Parallel()
	_, s := newSite(t)
	for name, path := range map[string]string{
		"start":          "/",
		"results":        "/?q=LAMPS",
		"beyond":         "/?q=lamps&page=9",
		"none":           "/?q=lamps+zebra",
		"no words":       "/?q=the+of",
		"stored":         "/stored?q=lamps&url=" + url.QueryEscape(target),
		"not stored":     "/stored?url=" + url.QueryEscape(absent),
		"document":       "/document?url=" + url.QueryEscape(target),
		"duplicate":      "/document?url=" + url.QueryEscape(mirror),
		"redirect":       "/document?url=" + url.QueryEscape(moved),
		"linked only":    "/document?url=" + url.QueryEscape(absent),
		"unknown":        "/document?url=" + url.QueryEscape("http://unknown.test/"),
		"no such page":   "/nowhere",
		"query too long": "/?q=" + strings.Repeat("x", 501),
	} {
		rec := get(t, s, path)
		got := fmt.Sprintf("%d\n%s", rec.Code, variable.ReplaceAllString(rec.Body.String(), "VARIABLE"))
		file := filepath.Join("testdata", strings.ReplaceAll(name, " ", "-")+".html")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// results finds the results of a page, in order.
func results(body string) []string {
	var urls []string
	for _, m := range regexp.MustCompile(`<p class="url">([^<]*)</p>`).FindAllStringSubmatch(body, -1) {
		urls = append(urls, strings.ReplaceAll(m[1], "&amp;", "&"))
	}
	return urls
}

func TestEveryTermHasToOccur(t *testing.T) {
	t.Parallel()
	_, s := newSite(t)
	for query, want := range map[string][]string{
		"lamps":                {target, home, "http://z.test/"}, // linked to most, then once each
		"lenses":               {target},
		"lamps lenses":         {target},
		"Lamps, LENSES & lens": nil,
		"nothing lamps":        {home},
		"the of":               nil, // no terms
		"":                     nil,
	} {
		rec := get(t, s, "/?q="+url.QueryEscape(query))
		if rec.Code != http.StatusOK {
			t.Errorf("%q: status %d", query, rec.Code)
		}
		if diff := cmp.Diff(want, results(rec.Body.String())); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
}

func TestResultsAreDividedIntoPages(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 1)
	for i := range 25 {
		w.Put(fmt.Sprintf("http://many.test/%02d", i), webtest.Page("Many", fmt.Sprintf("lamp number%d", i)))
	}
	w.Check()
	s := search.NewServer(w.Client, slog.New(slog.NewTextHandler(io.Discard, nil)))
	seen := map[string]bool{}
	for page, want := range map[string]int{"": 10, "&page=1": 10, "&page=2": 10, "&page=3": 5, "&page=4": 0, "&page=-7": 10, "&page=9999999999": 0, "&page=x": 10} {
		rec := get(t, s, "/?q=lamp"+page)
		got := results(rec.Body.String())
		if len(got) != want || rec.Code != http.StatusOK {
			t.Errorf("page %q: status %d, %d results, want %d", page, rec.Code, len(got), want)
		}
		for _, u := range got {
			seen[u] = true
		}
	}
	if body := get(t, s, "/?q=lamp&page=9").Body.String(); !strings.Contains(body, "There are 3 pages of results") || !strings.Contains(body, `href="/?page=3&amp;q=lamp"`) {
		t.Errorf("beyond the last page:\n%s", body)
	}
	if len(seen) != 25 {
		t.Errorf("%d of 25 documents on the pages together", len(seen))
	}
}

func TestRawVersions(t *testing.T) {
	t.Parallel()
	w, s := newSite(t)
	w.Put(home, webtest.Page("Home", "A second version."))
	w.Put(home, webtest.Page("Home", "A third version."))
	w.Check()
	body := get(t, s, "/document?url="+url.QueryEscape(home)).Body.String()
	links := regexp.MustCompile(`href="(/raw[^"]*)"`).FindAllStringSubmatch(body, -1)
	want := []string{"A third version", "A second version", "Nothing but lamps"}
	if len(links) != len(want) {
		t.Fatalf("%d versions, want %d:\n%s", len(links), len(want), body)
	}
	for i, l := range links {
		rec := get(t, s, strings.ReplaceAll(l[1], "&amp;", "&"))
		if rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), want[i]) {
			t.Errorf("version %d: status %d, want %q in\n%s", i, rec.Code, want[i], rec.Body)
		}
		if ct := rec.Header().Get("Content-Type"); ct != "text/plain; charset=utf-8" {
			t.Errorf("a stored page is served as %q", ct)
		}
	}
	for _, path := range []string{
		"/raw", "/raw?url=x&at=1", "/raw?url=" + url.QueryEscape(home), "/raw?at=-1&url=" + url.QueryEscape(home),
		"/raw?at=9223372036854775807&url=" + url.QueryEscape(home),
		"/raw?at=" + regexp.MustCompile(`at=(\d+)`).FindStringSubmatch(body)[1] + "&url=" + url.QueryEscape("http://unknown.test/"),
	} {
		if rec := get(t, s, path); rec.Code != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", path, rec.Code)
		}
	}
	if rec := get(t, s, "/raw?at=1&url="+url.QueryEscape(home)); rec.Code != http.StatusGone {
		t.Errorf("a version from long ago: status %d, want 410", rec.Code)
	}
}

func TestHeadersForbidScripts(t *testing.T) {
	t.Parallel()
	_, s := newSite(t)
	for _, path := range []string{"/", "/?q=lamps", "/nowhere", "/style.css"} {
		h := get(t, s, path).Header()
		if !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", path, h)
		}
	}
	if ct := get(t, s, "/style.css").Header().Get("Content-Type"); !strings.HasPrefix(ct, "text/css") {
		t.Errorf("style sheet of type %q", ct)
	}
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/?q=lamps", nil))
	if rec.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", rec.Code)
	}
}

func TestStoreDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w, s := newSite(t)
	if err := w.Client.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/?q=lamps", "/document?url=" + url.QueryEscape(home)} {
		rec := get(t, s, path)
		if rec.Code != http.StatusServiceUnavailable || strings.Contains(rec.Body.String(), "percolator:") {
			t.Errorf("%s: status %d\n%s", path, rec.Code, rec.Body)
		}
	}
}

func TestUnreadableContent(t *testing.T) {
	t.Parallel()
	w, s := newSite(t)
	w.Update(func(_ context.Context, tx *percolator.Txn) error {
		return tx.Set(index.ServedContent.Cell(home), []byte("no JSON"))
	})
	if rec := get(t, s, "/?q=lamps"); rec.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d", rec.Code)
	}
}

// Requests that read the index wait for each other, as long as they may; others do not.
func TestSnapshotsAreLimited(t *testing.T) {
	t.Parallel()
	_, s := newSite(t)
	release := s.Occupy(search.MaxViews)
	read := []string{"/?q=lamps", "/document?url=" + url.QueryEscape(home), "/raw?at=9223372036854774&url=" + url.QueryEscape(home)}
	for _, path := range read {
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
		cancel()
		if rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), "Too many searches") || rec.Header().Get("Retry-After") == "" {
			t.Errorf("%s: status %d\n%s", path, rec.Code, rec.Body)
		}
	}
	for _, path := range []string{"/", "/style.css"} {
		if rec := get(t, s, path); rec.Code != http.StatusOK {
			t.Errorf("%s: status %d", path, rec.Code)
		}
	}
	release()
	for _, path := range slices.Repeat(read[:2], 2) { // each gives its slot back
		if rec := get(t, s, path); rec.Code != http.StatusOK {
			t.Errorf("%s with a slot: status %d", path, rec.Code)
		}
	}
}

// A document whose title has the words comes before one that only repeats them.
func TestTitlesCount(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 1)
	w.Put("http://a.test/", webtest.Page("Recipes", strings.Repeat("lamp ", 5)))
	w.Put("http://b.test/", webtest.Page("The lamp", "A lamp."))
	w.Put("http://c.test/", webtest.Page("Lamp rooms", "Rooms."))
	w.Check()
	s := search.NewServer(w.Client, slog.New(slog.NewTextHandler(io.Discard, nil)))
	want := []string{"http://b.test/", "http://c.test/", "http://a.test/"}
	if diff := cmp.Diff(want, results(get(t, s, "/?q=lamp").Body.String())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

var hrefs = regexp.MustCompile(`href="(/[^"]*)"`)

// From the start page on, every link within the site leads to a page: examples find something,
// results and links lead to stored pages, redirects to their targets.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	_, s := newSite(t)
	seen, open := map[string]bool{}, []string{"/"}
	for len(open) > 0 {
		path := open[0]
		open = open[1:]
		if seen[path] {
			continue
		}
		seen[path] = true
		rec := get(t, s, path)
		body := rec.Body.String()
		switch {
		case rec.Code == http.StatusSeeOther:
			open = append(open, rec.Header().Get("Location"))
		case strings.Contains(path, url.QueryEscape(absent)) && strings.HasPrefix(path, "/stored"): // it says so, and leads on
			if rec.Code != http.StatusNotFound || !strings.Contains(body, "/document?url=") {
				t.Errorf("%s: %d\n%s", path, rec.Code, body)
			}
		case rec.Code != http.StatusOK:
			t.Errorf("%s: %d", path, rec.Code)
		case strings.HasPrefix(path, "/?q=") && len(results(body)) == 0:
			t.Errorf("the example %s finds nothing", path)
		}
		for _, m := range hrefs.FindAllStringSubmatch(body, -1) {
			open = append(open, html.UnescapeString(m[1]))
		}
	}
	for _, path := range []string{"/stored?url=" + url.QueryEscape(target), "/document?url=" + url.QueryEscape(target), "/?q=guide+lighthouses", "/stored?url=" + url.QueryEscape(moved)} {
		if !seen[path] {
			t.Errorf("nothing leads to %s; seen were %v", path, seen)
		}
	}
}

// What strangers wrote is text, and never markup, also where words are marked.
func TestNothingOfAPageIsMarkup(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 1)
	const evil = "http://evil.test/"
	w.Put(evil, webtest.Page(`lamp &lt;script&gt;alert(1)&lt;/script&gt;`, `&lt;img src=x onerror=alert(2)&gt; lamp &lt;/p&gt;`))
	w.Check()
	s := search.NewServer(w.Client, slog.New(slog.NewTextHandler(io.Discard, nil)))
	for _, path := range []string{"/", "/?q=lamp", "/?q=%3Cscript%3E+lamp", "/stored?q=lamp+img&url=" + url.QueryEscape(evil), "/?q=%3Cscript%3Ealert%3C%2Fscript%3E"} {
		body := get(t, s, path).Body.String()
		if strings.Contains(body, "<script") || strings.Contains(body, "<img") {
			t.Errorf("%s: markup of others:\n%s", path, body)
		}
	}
	if body := get(t, s, "/stored?q=lamp+img&url="+url.QueryEscape(evil)).Body.String(); !strings.Contains(body, "<mark>img</mark>") || !strings.Contains(body, "<mark>lamp</mark>") {
		t.Errorf("words are not marked:\n%s", body)
	}
}

// The start page is there whether the index answers or not, and surveys it once in a while.
func TestStartPage(t *testing.T) {
	t.Parallel()
	w, s := newSite(t)
	if body := get(t, s, "/").Body.String(); !strings.Contains(body, "<dt>Pages</dt><dd>3</dd>") || !strings.Contains(body, "<dt>Sites</dt><dd>3</dd>") {
		t.Errorf("no statistics:\n%s", body)
	}
	before := w.Client.Stats().RowsRead
	for range 20 {
		get(t, s, "/")
	}
	if n := w.Client.Stats().RowsRead - before; n > 10 {
		t.Errorf("loading the start page again read %d rows", n)
	}
	if err := w.Client.Close(); err != nil {
		t.Fatal(err)
	}
	fresh := search.NewServer(w.Client, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if rec := get(t, fresh, "/"); rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), "Search what was crawled") {
		t.Errorf("without an index: %d\n%s", rec.Code, rec.Body)
	}
}
