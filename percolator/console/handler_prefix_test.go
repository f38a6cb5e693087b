package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

var links = regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)

// Under a prefix every link of every page leads to something under that prefix, also when a proxy
// has added another one.
func TestPathPrefix(t *testing.T) {
	t.Parallel()
	c := troubled(t)
	const prefix = "/admin/percolator/"
	for _, given := range []string{"/admin/percolator/", "admin/percolator"} {
		h := c.handler(func(cfg *Config) { cfg.PathPrefix, cfg.AllowChanges = given, true })
		mux := http.NewServeMux()
		mux.Handle(prefix, h)
		outer := http.StripPrefix("/proxied", mux)
		for path := range everyPage {
			page := "/proxied" + prefix + strings.TrimPrefix(path, "/")
			if path == "/row" {
				page += "?table=documents&row=r"
			}
			body := get(t, outer, page)
			base, _ := url.Parse(page)
			found := links.FindAllStringSubmatch(body, -1)
			if len(found) < 10 {
				t.Fatalf("%s has %d links", page, len(found))
			}
			for _, link := range found {
				target, err := base.Parse(strings.ReplaceAll(link[1], "&amp;", "&"))
				if err != nil {
					t.Fatal(err)
				}
				if target.Host != "" { // the runbook
					continue
				}
				if strings.HasPrefix(link[0], "action") && target.Path != "/proxied"+prefix+"row" {
					if !strings.HasPrefix(target.Path, "/proxied"+prefix) {
						t.Errorf("%s: a form leads to %s", page, target)
					}
					continue
				}
				if w := serve(outer, local(http.MethodGet, target.RequestURI(), nil)); w.Code != http.StatusOK {
					t.Errorf("%s: %s leads to %s: %d", page, link[1], target, w.Code)
				}
			}
		}
	}
}

func TestOutsideOfThePrefix(t *testing.T) {
	t.Parallel()
	h := newCluster(t, 1).handler(func(cfg *Config) { cfg.PathPrefix = "/admin/" })
	for path, want := range map[string]int{
		"/admin/": http.StatusOK, "/admin": http.StatusPermanentRedirect, "/": http.StatusNotFound, "/adminlocks": http.StatusNotFound,
		"/admin/locks": http.StatusOK, "/admin//locks": http.StatusNotFound, "/admin/../locks": http.StatusNotFound, "/admin/nothing": http.StatusNotFound,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr, r.Host, r.URL.Path = "127.0.0.1:1", "localhost", path
		if w := serve(h, r); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}
