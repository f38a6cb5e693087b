package search_test

import (
	"bytes"
	"cmp"
	"context"
	"html"
	"io"
	"log/slog"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/webindex/crawl"
	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/search"
	"github.com/gopercolator/percolator/cmd/webindex/webtest"
	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// changing is a search page that allows changes.
func changing(w *webtest.Web) *search.Server {
	s := search.NewServer(w.Client, slog.New(slog.NewTextHandler(io.Discard, nil)))
	s.AllowChanges(func() (map[string]int64, int) {
		runs, waiting := map[string]int64{}, 0
		for _, worker := range w.Workers {
			stats := worker.Stats()
			waiting += stats.Queued + stats.Running
			for name, o := range stats.Observers {
				runs[index.ObserverName(name)] += o.Runs
			}
		}
		return runs, waiting
	})
	return s
}

// local is a request from a browser on this machine.
func local(t *testing.T, method, path string, body io.Reader) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, body)
	r.RemoteAddr, r.Host = "127.0.0.1:5000", "localhost:8080"
	return r
}

func answer(s http.Handler, r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	return rec
}

func multi(t *testing.T, fields map[string]string) (body *bytes.Buffer, contentType string) {
	t.Helper()
	body = new(bytes.Buffer)
	w := multipart.NewWriter(body)
	for name, value := range fields {
		fixture.Must(t, w.WriteField(name, value))
	}
	fixture.Must(t, w.Close())
	return body, w.FormDataContentType()
}

// submit sends a form as its page does.
func submit(t *testing.T, fields map[string]string) *http.Request {
	t.Helper()
	body, contentType := multi(t, fields)
	r := local(t, http.MethodPost, "/change", body)
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return r
}

var (
	hidden   = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)
	textarea = regexp.MustCompile(`(?s)<textarea[^>]*>\n(.*)</textarea>`)
)

// form reads the form of a page as a browser does.
func form(t *testing.T, s http.Handler, u, query string) map[string]string {
	t.Helper()
	rec := answer(s, local(t, http.MethodGet, "/change?"+url.Values{"url": {u}, "q": {query}}.Encode(), nil))
	text := textarea.FindStringSubmatch(rec.Body.String())
	if rec.Code != http.StatusOK || text == nil {
		t.Fatalf("%d, and no form:\n%s", rec.Code, rec.Body)
	}
	fields := map[string]string{"html": html.UnescapeString(text[1])}
	for _, m := range hidden.FindAllStringSubmatch(rec.Body.String(), -1) {
		fields[m[1]] = html.UnescapeString(m[2])
	}
	return fields
}

// From a result on: its page is changed, and the next page says how the index has followed. What
// the observers have made of it is right.
func TestChangeTravels(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 1)
	s := changing(w)
	w.Put(home, webtest.Page("Home", "Nothing but lamps.", target+" the guide"))
	w.Put(target, webtest.Page("Guide", "All about lenses."))
	w.Check()
	if body := get(t, s, "/?q=lamps").Body.String(); !strings.Contains(body, "/change?q=lamps&amp;url="+url.QueryEscape(home)) {
		t.Errorf("a result without a link to its form:\n%s", body)
	}
	fields := form(t, s, home, "lamps")
	if !strings.Contains(fields["html"], "Nothing but lamps.") {
		t.Errorf("the form has %q", fields["html"])
	}
	fields["html"] = strings.ReplaceAll(strings.ReplaceAll(fields["html"], "Nothing but lamps.", "Zebras and lamps."), "\n", "\r\n")
	rec := answer(s, submit(t, fields))
	at := rec.Header().Get("Location")
	if rec.Code != http.StatusSeeOther {
		t.Fatalf("%d\n%s", rec.Code, rec.Body)
	}
	w.Check()
	rec = answer(s, local(t, http.MethodGet, at, nil))
	body := rec.Body.String()
	if !regexp.MustCompile(`data-done>\n<p>Changed at \d\d:\d\d:\d\d\.\d{3} UTC\. <strong>The index followed after \d+ ms\.</strong></p>\n<p>Observers ran \d+ times since: export \d+, .*process 1`).MatchString(body) ||
		!strings.Contains(body, `<li class="changed">`) || !strings.Contains(body, "Zebras and <mark>lamps</mark>") {
		t.Errorf("the index has followed, and the page says %d\n%s", rec.Code, body)
	}
	if csp := rec.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "script-src 'self'") {
		t.Errorf("the policy %q", csp)
	}
	if got := results(get(t, s, "/?q=zebras").Body.String()); len(got) != 1 {
		t.Errorf("the new word finds %q", got)
	}
}

// Before an observer has run, the page says that none has.
func TestChangeBeforeObservers(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 0)
	s := changing(w)
	w.Put(home, webtest.Page("Home", "Nothing but lamps."))
	fields := form(t, s, home, "lamps")
	fields["html"] += "<p>zebras"
	rec := answer(s, local(t, http.MethodGet, answer(s, submit(t, fields)).Header().Get("Location"), nil))
	if body := rec.Body.String(); strings.Contains(body, "data-done") || !strings.Contains(body, "No observer has read the page yet.") || !strings.Contains(body, "No result for <q>lamps</q>") {
		t.Errorf("%d\n%s", rec.Code, body)
	}
}

// A page that becomes a copy of another is found under one URL, and the page names it. Nothing is
// left to be seen then, nor for a page that becomes again what it was.
func TestChangeToACopy(t *testing.T) {
	t.Parallel()
	const twin = "http://z.test/"
	w, _ := newSite(t)
	s := changing(w)
	fields := form(t, s, twin, "lamps")
	before := fields["html"]
	fields["html"] = form(t, s, target, "")["html"]
	at := answer(s, submit(t, fields)).Header().Get("Location")
	w.Check()
	if body := answer(s, local(t, http.MethodGet, at, nil)).Body.String(); !strings.Contains(body, "data-done") || !strings.Contains(body, ">"+html.EscapeString(target)+"</a> instead") {
		t.Errorf("a copy:\n%s", body)
	}
	fields = form(t, s, twin, "lamps")
	fields["html"] = before
	answer(s, submit(t, fields))
	w.Check()
	if body := answer(s, local(t, http.MethodGet, at, nil)).Body.String(); !strings.Contains(body, "data-done") || !strings.Contains(body, "The index followed after") {
		t.Errorf("as it was:\n%s", body)
	}
}

// A form is sent in UTF-8, whatever the page was in.
func TestChangeOfAPageInAnotherCharset(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 1)
	s := changing(w)
	w.Load(home, 200, http.Header{"Content-Type": {"text/html; charset=iso-8859-1"}}, "<title>Caf\xe9</title>\r\n<p>un caf\xe9")
	fields := form(t, s, home, "café")
	if fields["html"] != "<title>Café</title>\n<p>un café" {
		t.Errorf("the form has %q", fields["html"])
	}
	if rec := answer(s, submit(t, fields)); !strings.Contains(rec.Body.String(), "Nothing to change") {
		t.Errorf("the page as it was: %d\n%s", rec.Code, rec.Body)
	}
	fields["html"] += " crème"
	answer(s, submit(t, fields))
	w.Check()
	if got := results(get(t, s, "/?q="+url.QueryEscape("café crème")).Body.String()); len(got) != 1 {
		t.Errorf("found %q", got)
	}
}

// What is no form of this server's own page, from this machine, of the version that is stored,
// changes nothing, and the answer says why.
func TestChangesRefused(t *testing.T) {
	t.Parallel()
	w, _ := newSite(t)
	s := changing(w)
	stored := webtest.Value(w, index.Digest, home)
	with := func(name, value string) map[string]string {
		fields := maps.Clone(form(t, s, home, "lamps"))
		fields["html"] += "<p>zebras"
		if name != "" {
			fields[name] = value
		}
		return fields
	}
	header := func(name, value string) func(r *http.Request) {
		return func(r *http.Request) {
			r.Header.Del("Sec-Fetch-Site")
			if name != "" {
				r.Header.Set(name, value)
			}
		}
	}
	for name, test := range map[string]struct {
		fields map[string]string
		alter  func(r *http.Request)
		want   int
		says   string
	}{
		"another site":       {with("", ""), header("Sec-Fetch-Site", "cross-site"), 403, "does not come from a page of this server"},
		"another port":       {with("", ""), header("Sec-Fetch-Site", "same-site"), 403, "does not come from a page of this server"},
		"an old browser":     {with("", ""), header("Origin", "http://evil.example"), 403, "does not come from a page of this server"},
		"no browser":         {with("", ""), header("", ""), 403, "does not come from a page of this server"},
		"another machine":    {with("", ""), func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1" }, 403, "on this machine only"},
		"a rebound name":     {with("", ""), func(r *http.Request) { r.Host = "evil.example" }, 403, "on this machine only"},
		"an older version":   {with("version", "0123"), nil, 409, "Nothing was overwritten"},
		"a page that is new": {with("url", "http://unknown.test/"), nil, 409, "Nothing was overwritten"},
		"no URL":             {with("url", "x"), nil, 400, "cannot be read"},
		"a long query":       {with("q", strings.Repeat("x", 501)), nil, 400, "cannot be read"},
		"another encoding":   {with("", ""), func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 400, "cannot be read"},
		"a large page":       {with("html", strings.Repeat("x", crawl.MaxPage+1)), nil, 413, "at most 10 MiB"},
		"a large form":       {with("other", strings.Repeat("x", crawl.MaxPage+1<<20)), nil, 413, "at most 10 MiB"},
		"nothing changed":    {form(t, s, home, "lamps"), nil, 200, "Nothing to change"},
	} {
		r := submit(t, test.fields)
		if test.alter != nil {
			test.alter(r)
		}
		rec := answer(s, r)
		if rec.Code != test.want || !strings.Contains(rec.Body.String(), test.says) {
			t.Errorf("%s: %d, want %d and %q:\n%.1000s", name, rec.Code, test.want, test.says, rec.Body)
		}
		if now := webtest.Value(w, index.Digest, cmp.Or(test.fields["url"], home)); now != stored && now != "" {
			t.Fatalf("%s: the page is another", name)
		}
	}
}

// Where changes are not allowed, there is neither a link to a form nor a form.
func TestNoChangesUnlessAllowed(t *testing.T) {
	t.Parallel()
	_, s := newSite(t)
	query := "url=" + url.QueryEscape(home)
	for _, path := range []string{"/", "/?q=lamps", "/stored?" + query} {
		if body := get(t, s, path).Body.String(); strings.Contains(body, "hange this page") {
			t.Errorf("%s has a link to a form:\n%s", path, body)
		}
	}
	for _, path := range []string{"/change?" + query, "/changed?" + query, "/follow.js"} {
		if rec := answer(s, local(t, http.MethodGet, path, nil)); rec.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, rec.Code)
		}
	}
	if rec := answer(s, submit(t, map[string]string{"url": home})); rec.Code != http.StatusMethodNotAllowed {
		t.Errorf("a change: %d", rec.Code)
	}
}

// Only documents have forms.
func TestFormsOfWhatIsNoDocument(t *testing.T) {
	t.Parallel()
	w, _ := newSite(t)
	s := changing(w)
	for _, u := range []string{moved, absent, "x", "http://unknown.test/"} {
		for _, path := range []string{"/change?url=", "/changed?url="} {
			if rec := answer(s, local(t, http.MethodGet, path+url.QueryEscape(u), nil)); rec.Code != http.StatusNotFound {
				t.Errorf("%s%s: %d", path, u, rec.Code)
			}
		}
	}
}

// A few forms are in memory at once; more wait, as long as they may.
func TestFormsAreLimited(t *testing.T) {
	t.Parallel()
	w, _ := newSite(t)
	s := changing(w)
	path := "/change?url=" + url.QueryEscape(home)
	release := s.OccupyForms(search.MaxForms)
	for _, r := range []*http.Request{local(t, http.MethodGet, path, nil), submit(t, nil)} {
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		if rec := answer(s, r.WithContext(ctx)); rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d\n%s", r.Method, rec.Code, rec.Body)
		}
		cancel()
	}
	release()
	for range 2 { // each gives its slot back
		if rec := answer(s, local(t, http.MethodGet, path, nil)); rec.Code != http.StatusOK {
			t.Errorf("with a slot: %d", rec.Code)
		}
	}
}
