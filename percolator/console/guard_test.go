package console

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/percolator"
)

// Without a password, only requests from this machine that name this machine get in, whichever way
// they are sent.
func TestWithoutPasswordOnlyLoopback(t *testing.T) {
	t.Parallel()
	h := newCluster(t, 1).handler(func(cfg *Config) { cfg.AllowChanges = true })
	for name, test := range map[string]struct {
		remote, host, header string
		want                 int
	}{
		"by name":             {"127.0.0.1:5000", "localhost:7072", "", http.StatusOK},
		"by address":          {"127.0.0.1:5000", "127.0.0.1:7072", "", http.StatusOK},
		"any loopback":        {"127.8.8.8:5000", "127.0.0.1", "", http.StatusOK},
		"by IPv6":             {"[::1]:5000", "[::1]:7072", "", http.StatusOK},
		"mapped IPv4":         {"[::ffff:127.0.0.1]:5000", "LOCALHOST", "", http.StatusOK},
		"another machine":     {"192.0.2.1:5000", "localhost:7072", "", http.StatusForbidden},
		"a rebound name":      {"127.0.0.1:5000", "evil.example:7072", "", http.StatusForbidden},
		"a name like it":      {"127.0.0.1:5000", "localhost.evil.example", "", http.StatusForbidden},
		"an address like it":  {"127.0.0.1:5000", "127.0.0.1.evil.example", "", http.StatusForbidden},
		"no host":             {"127.0.0.1:5000", "", "", http.StatusForbidden},
		"no remote address":   {"@", "localhost", "", http.StatusForbidden},
		"through a proxy":     {"127.0.0.1:5000", "127.0.0.1:7072", "X-Forwarded-For", http.StatusForbidden},
		"through another one": {"127.0.0.1:5000", "127.0.0.1:7072", "Forwarded", http.StatusForbidden},
	} {
		for _, path := range []string{"/", "/events?page=overview", h.asset("console.css")} {
			r := httptest.NewRequest(http.MethodHead, path, nil)
			r.RemoteAddr, r.Host = test.remote, test.host
			if test.header != "" {
				r.Header.Set(test.header, "192.0.2.1")
			}
			if w := serve(h, r); w.Code != test.want {
				t.Errorf("%s: %s: %d, want %d", name, path, w.Code, test.want)
			}
		}
	}
}

// Pages of other sites may link to the console, and may neither embed it nor hold its live streams.
func TestOtherSitesOnlyLink(t *testing.T) {
	t.Parallel()
	type headers map[string]string
	h := newCluster(t, 1).handler()
	for name, test := range map[string]struct {
		headers      headers
		page, stream int
	}{
		"no browser":       {nil, http.StatusOK, http.StatusOK},
		"own page":         {headers{"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}, http.StatusOK, http.StatusOK},
		"typed":            {headers{"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, http.StatusOK, http.StatusOK},
		"an old browser":   {headers{"Origin": "http://localhost:7072"}, http.StatusOK, http.StatusOK},
		"a link elsewhere": {headers{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, http.StatusOK, http.StatusForbidden},
		"a link nearby":    {headers{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, http.StatusOK, http.StatusForbidden},
		"a frame":          {headers{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, http.StatusForbidden, http.StatusForbidden},
		"an image":         {headers{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, http.StatusForbidden, http.StatusForbidden},
		"another port":     {headers{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}, http.StatusForbidden, http.StatusForbidden},
		"old and foreign":  {headers{"Origin": "http://evil.example"}, http.StatusForbidden, http.StatusForbidden},
	} {
		for path, want := range map[string]int{"/": test.page, "/events?page=overview": test.stream} {
			r := local(http.MethodHead, path, nil)
			for k, v := range test.headers {
				r.Header.Set(k, v)
			}
			if w := serve(h, r); w.Code != want {
				t.Errorf("%s: %s: %d, want %d", name, path, w.Code, want)
			}
		}
	}
}

func (h *Handler) asset(name string) string {
	return h.cfg.PathPrefix + "assets/" + h.views.version + "/" + name
}

// With a password everybody who knows it gets in, from anywhere, and nobody else, not even from
// this machine.
func TestBasicAuthentication(t *testing.T) {
	t.Parallel()
	const user, password = "ops", "correct horse battery"
	h := newCluster(t, 1).handler(func(cfg *Config) { cfg.Username, cfg.Password, cfg.AllowChanges = user, password, true })
	for _, test := range []struct {
		user, password string
		want           int
	}{
		{user, password, http.StatusOK},
		{user, "", http.StatusUnauthorized},
		{user, password + "x", http.StatusUnauthorized},
		{user, password[:len(password)-1], http.StatusUnauthorized},
		{"", password, http.StatusUnauthorized},
		{"Ops", password, http.StatusUnauthorized},
	} {
		r := httptest.NewRequest(http.MethodGet, "/storage", nil)
		r.RemoteAddr, r.Host = "192.0.2.1:5000", "console.example"
		r.SetBasicAuth(test.user, test.password)
		w := serve(h, r)
		if w.Code != test.want {
			t.Errorf("%q %q: %d, want %d", test.user, test.password, w.Code, test.want)
		}
		if asks := w.Header().Get("WWW-Authenticate") != ""; asks != (test.want == http.StatusUnauthorized) {
			t.Errorf("%q %q: asks for a password: %v", test.user, test.password, asks)
		}
	}
	for _, path := range []string{"/resolve-lock", "/retry-parked", "/drop-parked"} {
		if w := serve(h, form(path, url.Values{})); w.Code != http.StatusUnauthorized {
			t.Errorf("POST %s without a password: %d", path, w.Code)
		}
	}
}

// Every answer, also of what fails, forbids everything that the pages are not made of.
func TestPolicyOnEveryAnswer(t *testing.T) {
	t.Parallel()
	h := newCluster(t, 1).handler()
	paths := []string{"/nothing", "/row?table=none&row=r", "/row?row=", "/events?page=none", "/assets/0/console.js", "/assets/x/../../doc.go", h.asset("console.js"),
		h.asset("vendor/uplot/LICENSE"), h.asset("theme.js"), "//locks", "/locks/"}
	for path := range everyPage {
		paths = append(paths, path)
	}
	requests := []*http.Request{form("/resolve-lock", nil), local(http.MethodDelete, "/locks", nil), local(http.MethodPost, "/", nil)}
	for _, path := range paths {
		requests = append(requests, local(http.MethodGet, path, nil))
	}
	elsewhere := local(http.MethodGet, "/", nil)
	elsewhere.RemoteAddr = "192.0.2.1:1"
	for _, r := range append(requests, elsewhere) {
		header := serve(h, r).Header()
		for name, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "X-Frame-Options": "DENY",
		} {
			if got := header.Get(name); got != want {
				t.Errorf("%s %s: %s is %q", r.Method, r.URL, name, got)
			}
		}
		if cache := header.Get("Cache-Control"); cache != "no-store" && !strings.HasPrefix(r.URL.Path, h.asset("")) {
			t.Errorf("%s %s: Cache-Control is %q", r.Method, r.URL, cache)
		}
	}
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
		if !strings.Contains(policy, want) || strings.Contains(policy, "unsafe") {
			t.Errorf("the policy %q lacks %q, or allows what is unsafe", policy, want)
		}
	}
}

func TestConfigRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"a name without a password": func(cfg *Config) { cfg.Username = "ops" },
		"a password without a name": func(cfg *Config) { cfg.Password = "long enough, certainly" },
		"a short password":          func(cfg *Config) { cfg.Username, cfg.Password = "ops", "elevenbytes" },
		"a name with a colon":       func(cfg *Config) { cfg.Username, cfg.Password = "o:ps", "long enough, certainly" },
		"a prefix with a query":     func(cfg *Config) { cfg.PathPrefix = "/a?b" },
		"too many oracles":          func(cfg *Config) { cfg.OracleAddresses = make([]string, MaxOracles+1) },
		"a frantic poll":            func(cfg *Config) { cfg.PollInterval = 1 },
	} {
		var cfg Config
		change(&cfg)
		if _, err := NewHandler(new(percolator.Client), cfg); !errors.Is(err, percolator.ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewHandler(nil, Config{}); !errors.Is(err, percolator.ErrInvalidArgument) {
		t.Errorf("no client: %v", err)
	}
}
