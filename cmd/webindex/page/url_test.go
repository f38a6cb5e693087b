package page

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestIdentityIsNormalized(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"http://example.com/":                      "http://example.com/",
		"HTTP://Example.COM/Path?Q=Up#Frag":        "http://example.com/Path?Q=Up",
		"https://EXAMPLE.com":                      "https://example.com",
		"http://example.com:80/":                   "http://example.com:80/",
		"http://example.com/a/../b/./c":            "http://example.com/a/../b/./c",
		"http://example.com/%7Euser/%2f":           "http://example.com/%7Euser/%2f",
		"http://example.com/?":                     "http://example.com/?",
		"http://example.com/?b=2&a=1&&":            "http://example.com/?b=2&a=1&&",
		"http://example.com/#":                     "http://example.com/",
		"http://example.com#top":                   "http://example.com",
		"http://Example.com?x":                     "http://example.com?x",
		"http://User:PassWord@Example.com/":        "http://User:PassWord@example.com/",
		"http://[2001:DB8::1]:8080/":               "http://[2001:db8::1]:8080/",
		" \thttp://example.com/a b\n ":             "http://example.com/a%20b",
		"http://example.com/caf\u00e9/a%2Fb":       "http://example.com/caf%C3%A9/a%2Fb",
		"http://example.com/100%":                  "http://example.com/100%25",
		"http://example.com/%zz":                   "http://example.com/%25zz",
		"http://example.com/\xff":                  "http://example.com/%FF",
		"http://example.com/{a}|b?q=\"<x>\"":       "http://example.com/%7Ba%7D%7Cb?q=%22%3Cx%3E%22",
		"http://B\u00dcCHER.example:8080/":         "http://xn--bcher-kva.example:8080/",
		"http://b%C3%BCcher.example/":              "http://xn--bcher-kva.example/",
		"http://example.com/(a);b=c,d!$&'*+:@~[x]": "http://example.com/(a);b=c,d!$&'*+:@~[x]",
	} {
		got, err := Identity(raw)
		if err != nil || got != want {
			t.Errorf("Identity(%q) = %q, %v; want %q", raw, got, err, want)
		}
	}
}

func TestIdentityRefuses(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"", "/path", "example.com/", "//example.com/", "ftp://example.com/", "mailto:a@example.com", "javascript:void(0)",
		"http:/path", "http:path", "http://", "http:///path", "http://:80/", "http://exa mple.com/", "http://h:port/",
		"dns:example.com", "http://[::1/", "http://example.com/" + strings.Repeat("x", MaxURL),
	} {
		if got, err := Identity(raw); !errors.Is(err, ErrURL) {
			t.Errorf("Identity(%.40q) = %q, %v; want ErrURL", raw, got, err)
		}
	}
}

// The examples in section 5.4 of RFC 3986, their fragments dropped; what resolves to something else
// than http is refused.
func TestNormalizeURLResolvesLikeRFC3986(t *testing.T) {
	t.Parallel()
	base, err := url.Parse("http://a/b/c/d;p?q")
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{
		"g:h": "", "g": "http://a/b/c/g", "./g": "http://a/b/c/g", "g/": "http://a/b/c/g/", "/g": "http://a/g",
		"//g": "http://g", "?y": "http://a/b/c/d;p?y", "g?y": "http://a/b/c/g?y", "#s": "http://a/b/c/d;p?q",
		"g#s": "http://a/b/c/g", "g?y#s": "http://a/b/c/g?y", ";x": "http://a/b/c/;x", "g;x": "http://a/b/c/g;x",
		"g;x?y#s": "http://a/b/c/g;x?y", "": "http://a/b/c/d;p?q", ".": "http://a/b/c/", "./": "http://a/b/c/",
		"..": "http://a/b/", "../": "http://a/b/", "../g": "http://a/b/g", "../..": "http://a/", "../../": "http://a/",
		"../../g": "http://a/g", "../../../g": "http://a/g", "../../../../g": "http://a/g", "/./g": "http://a/g",
		"/../g": "http://a/g", "g.": "http://a/b/c/g.", ".g": "http://a/b/c/.g", "g..": "http://a/b/c/g..",
		"..g": "http://a/b/c/..g", "./../g": "http://a/b/g", "./g/.": "http://a/b/c/g/", "g/./h": "http://a/b/c/g/h",
		"g/../h": "http://a/b/c/h", "g;x=1/./y": "http://a/b/c/g;x=1/y", "g;x=1/../y": "http://a/b/c/y",
		"g?y/./x": "http://a/b/c/g?y/./x", "g?y/../x": "http://a/b/c/g?y/../x", "g#s/../x": "http://a/b/c/g",
		"http:g": "",
	} {
		got, err := NormalizeURL(base, ref)
		if want == "" {
			if !errors.Is(err, ErrURL) {
				t.Errorf("NormalizeURL(%q) = %q, %v; want ErrURL", ref, got, err)
			}
		} else if err != nil || got != want {
			t.Errorf("NormalizeURL(%q) = %q, %v; want %q", ref, got, err, want)
		}
	}
}

func TestNormalizeURL(t *testing.T) {
	t.Parallel()
	base, err := url.Parse("http://example.com/dir/../page.html?q=1")
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{
		"#part":                     "http://example.com/dir/../page.html?q=1", // the document itself, not another one
		" other page.html ":         "http://example.com/dir/other%20page.html",
		"a\n b.html":                "http://example.com/dir/a%20b.html",
		"\u00fc.html?\u00fc":        "http://example.com/dir/%C3%BC.html?%C3%BC",
		"HTTPS://Other.Example/X#y": "https://other.example/X",
		"//Other.Example":           "http://other.example",
		"x%2Fy?a=%2F":               "http://example.com/dir/x%2Fy?a=%2F",
		"50%.html":                  "http://example.com/dir/50%25.html",
	} {
		// The base of the first entry is the document; the path of the others is merged with it and
		// loses its dots.
		if strings.HasPrefix(want, "http://example.com/dir/") && ref != "#part" {
			want = strings.Replace(want, "/dir/", "/", 1)
		}
		if got, err := NormalizeURL(base, ref); err != nil || got != want {
			t.Errorf("NormalizeURL(%q) = %q, %v; want %q", ref, got, err, want)
		}
	}
}

func TestRedirectTarget(t *testing.T) {
	t.Parallel()
	const doc = "http://Example.com/old#x"
	for _, c := range []struct {
		status   int
		location string
		want     string
	}{
		{301, "/new", "http://example.com/new"},
		{302, "http://Other.Example/a#b", "http://other.example/a"},
		{303, "new?x", "http://example.com/new?x"},
		{307, "//other.example/", "http://other.example/"},
		{308, "https://example.com/old", "https://example.com/old"},
		{300, "/new", ""}, {304, "/new", ""}, {305, "/new", ""}, {200, "/new", ""}, {404, "/new", ""},
		{301, "", ""}, {301, "old#y", ""}, {301, "#y", ""}, {301, "ftp://example.com/", ""}, {301, "http://", ""},
	} {
		header := http.Header{}
		if c.location != "" {
			header.Set("Location", c.location)
		}
		got, ok := RedirectTarget(doc, c.status, header)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("RedirectTarget(%d, %q) = %q, %v; want %q", c.status, c.location, got, ok, c.want)
		}
	}
	if got, ok := RedirectTarget("no URL", 301, http.Header{"Location": {"http://example.com/"}}); ok {
		t.Errorf("a redirect from nowhere leads to %q", got)
	}
}

func TestIsDocument(t *testing.T) {
	t.Parallel()
	for contentType, want := range map[string]bool{
		"text/html": true, "Text/HTML; charset=utf-8": true, "application/xhtml+xml": true, "text/html;;;": true,
		" text/html ": true, "text/plain": false, "": false, "image/png": false, "text/htmlx": false,
	} {
		header := http.Header{"Content-Type": {contentType}}
		if got := IsHTML(header); got != want {
			t.Errorf("IsHTML(%q) = %v", contentType, got)
		}
		if got := IsDocument(200, header); got != want {
			t.Errorf("IsDocument(200, %q) = %v", contentType, got)
		}
		if IsDocument(404, header) || IsDocument(206, header) {
			t.Errorf("a %q with another status than 200 is a document", contentType)
		}
	}
	if IsHTML(nil) {
		t.Error("a response without header is HTML")
	}
}

func FuzzNormalizeURL(f *testing.F) {
	for _, ref := range []string{
		"", "#", "?", "a/../b", "//h", "HTTP://A/%zz", "http://[::1]/", "http://\u00fc/", "http://a%C3%9C:1/", "\\a", "x:y",
	} {
		f.Add("http://Example.com/a/b?c", ref)
	}
	f.Fuzz(func(t *testing.T, doc, ref string) {
		_, base, err := documentURL(doc)
		if err != nil {
			return
		}
		id, err := NormalizeURL(base, ref)
		if err != nil {
			if !errors.Is(err, ErrURL) {
				t.Errorf("error %v is not an ErrURL", err)
			}
			return
		}
		if again, err := Identity(id); err != nil || again != id {
			t.Errorf("the identity of %q is %q, %v", id, again, err)
		}
		u, err := url.Parse(id)
		if err != nil {
			t.Fatalf("%q is no URL: %v", id, err)
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Host != strings.ToLower(u.Host) ||
			strings.Contains(id, "#") || len(id) > MaxURL {
			t.Errorf("%q is no identity", id)
		}
	})
}
