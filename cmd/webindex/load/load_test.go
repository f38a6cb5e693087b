package load_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gopercolator/percolator/cmd/webindex/crawl"
	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/load"
	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/cmd/webindex/webtest"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// record is a WARC record of an HTML page.
func record(url, html string) string {
	http := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + html
	return fmt.Sprintf("WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: %s\r\nWARC-Date: 2026-01-01T00:00:00Z\r\n"+
		"WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-000000000000>\r\n"+
		"Content-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n", url, len(http), http)
}

func file(t testing.TB, name string, parts ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(strings.Join(parts, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func loader(w *webtest.Web) (*load.Loader, *bytes.Buffer) {
	var log bytes.Buffer
	return &load.Loader{Client: w.Client, Log: slog.New(slog.NewTextHandler(&log, nil))}, &log
}

func want(t *testing.T, what string, got, want load.Counts) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestLastResponseCounts: of several responses of one URL the last one is stored, also when the
// crawl is loaded again.
func TestLastResponseCounts(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 1)
	path := file(t, "twice.warc",
		record("http://a.test/", webtest.Page("Old", "first")),
		record("http://b.test/", webtest.Page("Other", "between")),
		record("HTTP://A.test/#top", webtest.Page("New", "second")))
	for i, expected := range []load.Counts{
		{Changed: 2, Superseded: 1},
		{Unchanged: 2, Superseded: 1},
	} {
		l, log := loader(w)
		if err := l.Load(w.Context(), load.Path(path)); err != nil {
			t.Fatal(err)
		}
		w.Check()
		want(t, fmt.Sprint("load ", i+1), l.Counts(), expected)
		if got := webtest.Value(w, index.Derived, "http://a.test/").Title; got != "New" {
			t.Errorf("title %q, want the last one", got)
		}
		if log.Len() > 0 {
			t.Errorf("logged: %s", log)
		}
		if read, total := l.Progress(); read != total || total == 0 {
			t.Errorf("progress %d of %d at the end", read, total)
		}
	}
}

// TestBadInputIsNamed: what is wrong is named with its place, counted, and the rest is loaded.
func TestBadInputIsNamed(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 1)
	first := record("http://a.test/", webtest.Page("First", "good"))
	long := "http://long.test/" + strings.Repeat("x", page.MaxURL)
	truncated := file(t, "truncated.warc", first, record(long, "too long a name"), record("http://b.test/", webtest.Page("Cut", "off"))[:200])
	nothing := filepath.Join(t.TempDir(), "absent.warc")
	nonsense := file(t, "nonsense.warc", "this is no WARC file\n")
	l, log := loader(w)
	for _, path := range []string{truncated, nothing, nonsense} {
		if err := l.Load(w.Context(), load.Path(path)); err != nil {
			t.Fatal(err)
		}
	}
	w.Check()
	want(t, "together", l.Counts(), load.Counts{Changed: 1, Skipped: 1, Bad: 3})
	for _, text := range []string{truncated, nothing, nonsense, fmt.Sprintf("at byte %d", len(first)), "long.test"} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("%q is not in the log:\n%s", text, log)
		}
	}
}

func TestLargePagesAreSkipped(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 1)
	path := file(t, "large.warc",
		record("http://large.test/", strings.Repeat("x", crawl.MaxPage+1)),
		record("http://small.test/", webtest.Page("Small", "enough")))
	l, log := loader(w)
	if err := l.Load(w.Context(), load.Path(path)); err != nil {
		t.Fatal(err)
	}
	want(t, "large", l.Counts(), load.Counts{Changed: 1, Skipped: 1})
	if !strings.Contains(log.String(), "http://large.test/") {
		t.Errorf("the page is not named:\n%s", log)
	}
}

func TestDirectoryOfPagesIsLoaded(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 1)
	dir := t.TempDir()
	for _, name := range []string{"a.html", "b.html", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(webtest.Page(name, "text", "a.html first")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l, _ := loader(w)
	if err := l.Load(w.Context(), load.Path(dir)); err != nil {
		t.Fatal(err)
	}
	w.Check()
	want(t, "directory", l.Counts(), load.Counts{Changed: 2})
	if anchors := webtest.Value(w, index.ServedAnchors, crawl.DirectoryBase+"a.html"); len(anchors) != 1 {
		t.Errorf("anchors %v, want one", anchors)
	}
}

func TestStoreFailureEndsTheLoad(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 0)
	path := file(t, "one.warc", record("http://a.test/", "x"))
	l, _ := loader(w)
	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	if err := l.Load(ctx, load.Path(path)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled load: %v", err)
	}
	if err := w.Client.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Load(w.Context(), load.Path(path)); !errors.Is(err, percolator.ErrClosed) {
		t.Errorf("load into a closed store: %v", err)
	}
	want(t, "nothing", l.Counts(), load.Counts{})
}

// An interrupted load goes on where it was, and its counts tell what each of the runs has done.
// Another input with the same beginning does not.
func TestInterruptedLoadGoesOn(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 0)
	const pages = 2000
	parts := []string{record("http://site.test/7", webtest.Page("Old", "superseded")), record("http://long.test/"+strings.Repeat("x", page.MaxURL), "")}
	for i := range pages {
		parts = append(parts, record(fmt.Sprintf("http://site.test/%d", i), webtest.Page(fmt.Sprint(i), "text")))
	}
	whole := file(t, "whole.warc", parts...)
	moved := file(t, "moved.warc", parts...)
	longer := file(t, "longer.warc", append(parts, record("http://site.test/last", webtest.Page("Last", "one")))...)

	// interrupted runs a load that is interrupted at one of its requests.
	interrupted := func() load.Counts {
		ctx, interrupt := context.WithCancel(w.Context())
		l, _ := loader(w)
		l.Client = w.Env.NewClient()
		n := 0
		w.Env.FaultsOf(l.Client).Handle(func(percolatortest.Request) percolatortest.Action {
			if n++; n == 25 {
				interrupt()
			}
			return percolatortest.Pass
		})
		if err := l.Load(ctx, load.Path(whole)); !errors.Is(err, context.Canceled) {
			t.Fatalf("the interrupted load: %v", err)
		}
		if c := l.Counts(); c.Pages() == 0 || c.Pages() == pages || c.Earlier > 0 {
			t.Fatalf("interrupted after %+v of %d pages", c, pages)
		}
		return l.Counts()
	}
	loaded := interrupted().Changed
	for _, run := range []struct {
		what, path string
		restart    bool
		want       load.Counts
	}{
		{"another input", longer, false, load.Counts{Changed: pages + 1 - loaded, Unchanged: loaded, Superseded: 1, Skipped: 1}},
		{"the rest", moved, false, load.Counts{Unchanged: pages - loaded, Earlier: loaded, Superseded: 1, Skipped: 1}},
		{"when it is finished", whole, false, load.Counts{Unchanged: pages, Superseded: 1, Skipped: 1}},
		{"from the beginning", whole, true, load.Counts{Unchanged: pages, Superseded: 1, Skipped: 1}},
	} {
		if run.restart {
			interrupted()
		}
		l, _ := loader(w)
		l.Restart = run.restart
		if err := l.Load(w.Context(), load.Path(run.path)); err != nil {
			t.Fatal(err)
		}
		want(t, run.what, l.Counts(), run.want)
	}
	if n := w.Client.Stats().Transactions; n == 0 || n > pages/4 {
		t.Errorf("%d transactions for %d pages", n, pages)
	}
}
