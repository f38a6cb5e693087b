package console

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/percolator"
)

// local is a request as a browser on this machine sends it.
func local(method, target string, body io.Reader) *http.Request {
	r := httptest.NewRequest(method, target, body)
	r.RemoteAddr, r.Host = "127.0.0.1:50000", "localhost:7072"
	return r
}

// form is one that the console's own page sends.
func form(target string, fields url.Values) *http.Request {
	r := local(http.MethodPost, target, strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return r
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func get(t *testing.T, h http.Handler, path string) string {
	t.Helper()
	w := serve(h, local(http.MethodGet, path, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d\n%s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

var everyPage = map[string]string{
	"/": "Transactions", "/row": "Look at a row", "/locks": "Locks", "/contention": "contended cells", "/observers": "Parked", "/workers": "Clients", "/oracle": "High-water mark", "/storage": "Holds", "/journal": "Last sweep",
}

func TestEveryPage(t *testing.T) {
	t.Parallel()
	h := newCluster(t, 1).handler()
	for path, want := range everyPage {
		body := get(t, h, path)
		for _, want := range []string{want, "demo/search", `<main id="main"`, "Read-only"} {
			if !strings.Contains(body, want) {
				t.Errorf("%s lacks %q:\n%s", path, want, body)
			}
		}
		for _, never := range []string{"<no value>", "%!", " style=", "onclick", "<script>"} {
			if strings.Contains(body, never) {
				t.Errorf("%s contains %q", path, never)
			}
		}
	}
}

// The contention page lists the cells on which transactions have conflicted.
func TestContendedCells(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	if body := get(t, c.handler(), "/contention"); !strings.Contains(body, "No client has reported a conflict lately") {
		t.Error(body)
	}
	ctx, contested := testContext(t), percolator.Cell{Table: "words", Row: "<the>", Column: "n"}
	a, err := c.client.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err = c.client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Set(contested, nil) }); err != nil {
			t.Fatal(err)
		}
	}
	if err = a.Set(contested, nil); err != nil {
		t.Fatal(err)
	}
	if _, err = a.Commit(ctx); !errors.Is(err, percolator.ErrConflict) {
		t.Fatalf("%v, want a conflict", err)
	}
	body := get(t, c.handler(), "/contention")
	if want := `<th scope="row" class="key" data-label="Cell"><a class="wide" href="row?row=%3Cthe%3E&amp;table=words">words/&#34;&lt;the&gt;&#34;/&#34;n&#34;</a></th>` +
		`<td class="number" data-label="Conflicts">1</td><td class="number" data-label="Updates that wait">0</td><td class="number" data-label="Clients">1</td>`; !strings.Contains(body, want) {
		t.Errorf("%s lacks %s", body, want)
	}
}
