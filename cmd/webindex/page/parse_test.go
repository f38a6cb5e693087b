package page

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

const testDoc = "http://Example.com/dir/page.html"

func parse(t *testing.T, body string) *Page {
	t.Helper()
	p, err := Parse(testDoc, htmlHeader("text/html"), []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParseFindsTitleTermsAndLinks(t *testing.T) {
	t.Parallel()
	p := parse(t, `<!DOCTYPE html><html><head><title> The
  Outer &amp; Inner Light </title><style>p { color: red }</style><script>if (a < b) document.write("<a href=x>no</a>")</script>
</head><body><!-- a comment --><h1>Two lights</h1><p>An <b>over</b>cast&nbsp;day.<br>Rain<ul><li>one<li>two</ul>
<a href="lamp.html">the <i>lamp</i>  room</a> <a href='/lens.html#top' rel=nofollow>the lens</a>
<a href="lamp.html#wick">the wick</a><a href="lamp.html">the lamp room</a></body></html>`)
	want := &Page{
		Cluster: p.Cluster,
		Title:   "The Outer & Inner Light",
		Text:    "Two lights An overcast day. Rain one two the lamp room the lens the wickthe lamp room",
		Terms: map[string]int{
			"outer": 1, "inner": 1, "light": 1, "two": 2, "lights": 1, "overcast": 1, "day": 1, "rain": 1, "one": 1,
			"lamp": 2, "room": 2, "lens": 1, "wickthe": 1,
		},
		Links: []Link{
			{"http://example.com/dir/lamp.html", []string{"the lamp room", "the wick"}},
			{"http://example.com/lens.html", []string{"the lens"}},
		},
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
	if len(p.Cluster) != 64 {
		t.Errorf("cluster %q", p.Cluster)
	}
}

func TestParseLinks(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", MaxAnchor)
	for name, c := range map[string]struct {
		body string
		want []Link
	}{
		"to itself": {`<a href="">a</a><a href="#b">b</a><a href=page.html>c</a><a href=http://EXAMPLE.com/dir/page.html#d>d</a>`, nil},
		"not to the web": {
			`<a href=mailto:a@b>a</a><a href="javascript:x()">b</a><a href=ftp://h/>c</a><a href="http://">d</a><a href="tel:1">e</a>`, nil,
		},
		"to oneself with a query":      {`<a href="?x">a</a>`, []Link{{"http://example.com/dir/page.html?x", []string{"a"}}}},
		"upper case":                   {`<A HREF=X>y</A>`, []Link{{"http://example.com/dir/X", []string{"y"}}}},
		"base":                         {`<a href=x>y</a><base href="/b/"><base href="/c/">`, []Link{{"http://example.com/b/x", []string{"y"}}}},
		"base relative to the page":    {`<base href=sub/><a href=x>y</a><a href=#z>z</a>`, []Link{{"http://example.com/dir/sub/x", []string{"y"}}, {"http://example.com/dir/sub/", []string{"z"}}}},
		"base without href":            {`<base target=_top><base href=//h><a href=x>y</a>`, []Link{{"http://h/x", []string{"y"}}}},
		"base that is no URL":          {`<base href="data:x"><a href=x>y</a>`, []Link{{"http://example.com/dir/x", []string{"y"}}}},
		"picture":                      {`<a href=x><img src=i alt=" A  lamp "></a>`, []Link{{"http://example.com/dir/x", []string{"A lamp"}}}},
		"picture and text":             {`<a href=x>See<img alt="a lamp">here</a>`, []Link{{"http://example.com/dir/x", []string{"See a lamp here"}}}},
		"picture without text":         {`<a href=x><img src=i></a>`, []Link{{"http://example.com/dir/x", nil}}},
		"area":                         {`<map><area href=x alt=North><area href=y></map>`, []Link{{"http://example.com/dir/x", []string{"North"}}, {"http://example.com/dir/y", nil}}},
		"area within a":                {`<a href=x>one <area href=y alt=two> three</a>`, []Link{{"http://example.com/dir/y", []string{"two"}}, {"http://example.com/dir/x", []string{"one three"}}}},
		"blocks":                       {`<a href=x><div>one</div><div>two</div></a>`, []Link{{"http://example.com/dir/x", []string{"one two"}}}},
		"not closed":                   {`<a href=x>one<a href=y>two`, []Link{{"http://example.com/dir/x", []string{"one"}}, {"http://example.com/dir/y", []string{"two"}}}},
		"closed by a name":             {`<a href=x>one<a name=n>two</a>`, []Link{{"http://example.com/dir/x", []string{"one"}}}},
		"not quoted, not separated":    {`<a/href=x/y class="b"title='c'>one</a>`, []Link{{"http://example.com/dir/x/y", []string{"one"}}}},
		"twice an attribute":           {`<a href=x href=y>one</a>`, []Link{{"http://example.com/dir/x", []string{"one"}}}},
		"character reference":          {`<a href="x?a=1&amp;b=2">one &lt; two</a>`, []Link{{"http://example.com/dir/x?a=1&b=2", []string{"one < two"}}}},
		"noscript":                     {`<noscript><a href=x>one</a></noscript>`, []Link{{"http://example.com/dir/x", []string{"one"}}}},
		"noframes":                     {`<frameset><noframes><a href=x>one</a></noframes>`, []Link{{"http://example.com/dir/x", []string{"one"}}}},
		"template, textarea, iframe":   {`<template><a href=x>1</a></template><textarea><a href=y>2</a></textarea><iframe><a href=z>3</a></iframe>`, nil},
		"a comment that does not end":  {`<a href=x>one</a><!-- <a href=y>two</a>`, []Link{{"http://example.com/dir/x", []string{"one"}}}},
		"a tag that does not end":      {`<a href=x>one</a><a href="y`, []Link{{"http://example.com/dir/x", []string{"one"}}}},
		"a script that does not end":   {`<a href=x>one</a><script><a href=y>two</a>`, []Link{{"http://example.com/dir/x", []string{"one"}}}},
		"a long text is cut":           {`<a href=x>` + long + `</a>`, []Link{{"http://example.com/dir/x", []string{long[:MaxAnchor]}}}},
		"the same text twice":          {`<a href=x>one</a><a href=x> one </a><a href=x>One</a>`, []Link{{"http://example.com/dir/x", []string{"one", "One"}}}},
		"dots, space and odd escapes":  {`<a href=" ../a b/%zz ">one</a>`, []Link{{"http://example.com/a%20b/%25zz", []string{"one"}}}},
		"a link with a broken address": {`<a href="http://[::1">one</a><a href="http://h:x/">two</a>`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, parse(t, c.body).Links); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseTitleAndText(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][2]string{
		"":                                               {"", ""},
		"no tags at all":                                 {"", "no tags at all"},
		"<title>a</title><title>b</title>c":              {"a", "c"},
		"<title>a <b>b</b></title>c":                     {"a <b>b</b>", "c"},
		"<p>x<svg><title>pic</title></svg>y":             {"pic", "x y"},
		"<title></title><title>b</title>":                {"", ""},
		"<title>open":                                    {"open", ""},
		"<table><tr><td>a<td>b</table>":                  {"", "a b"},
		"a<sub>1</sub> <span>b</span>c":                  {"", "a1 bc"},
		"a<script/>b</script>c":                          {"", "a c"},
		"<xmp><b>kept</b></xmp>":                         {"", "<b>kept</b>"},
		"a<br/>b<hr>c":                                   {"", "a b c"},
		"</p></b></template>a":                           {"", "a"},
		"<template>a<template>b</template>c</template>d": {"", "d"},
		"a &lt;b&gt; &eacute; &#x41; &unknown; &":        {"", "a <b> é A &unknown; &"},
		"a\x00b < c <1 <> </>d":                          {"", "a\x00b < c <1 <> d"},
	} {
		p := parse(t, body)
		if p.Title != want[0] || p.Text != want[1] {
			t.Errorf("%q: title %q, text %q, want %q", body, p.Title, p.Text, want)
		}
	}
}

func TestParseKeepsWithinItsLimits(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("<title>" + strings.Repeat("é", MaxTitle) + "</title>")
	for i := range MaxAnchors + 1 {
		fmt.Fprintf(&b, "<a href=first>text %d</a> ", i)
	}
	for i := range MaxLinks {
		fmt.Fprintf(&b, "<a href=%d>t</a> ", i)
	}
	b.WriteString("<a href=first>text 0</a>" + strings.Repeat("ü ", MaxText) + " end")
	p := parse(t, b.String())
	if !p.Truncated || len(p.Links) != MaxLinks || len(p.Links[0].Anchors) != MaxAnchors {
		t.Errorf("truncated %v, %d links, %d anchors", p.Truncated, len(p.Links), len(p.Links[0].Anchors))
	}
	if len(p.Title) != MaxTitle || len(p.Text) > MaxText || len(p.Text) < MaxText-3 || !utf8.ValidString(p.Text) {
		t.Errorf("title %d, text %d", len(p.Title), len(p.Text))
	}
	if p.Terms["end"] != 1 {
		t.Error("the terms are only those of the text that is kept")
	}
	if parse(t, "<title>a</title><a href=x>"+strings.Repeat("x", MaxAnchor)+"</a>").Truncated {
		t.Error("a small page is truncated")
	}
}

func TestParseRefusesADocumentWithoutIdentity(t *testing.T) {
	t.Parallel()
	if _, err := Parse("ftp://example.com/", nil, nil); !errors.Is(err, ErrURL) {
		t.Errorf("got %v", err)
	}
}

// Unclosed formatting elements make a tree grow with the square of the page.
func TestParseIsLinear(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&b, "<b a=%d><p><table><font size=%d>", i, i)
	}
	b.WriteString("<a href=x>y")
	if p := parse(t, b.String()); len(p.Links) != 1 {
		t.Errorf("%d links", len(p.Links))
	}
}

func FuzzParse(f *testing.F) {
	f.Add("text/html", []byte("<title>a</title><a href=b>c<img alt=d></a><base href=e>"))
	f.Add("text/html; charset=shift_jis", []byte("<a href='\x93\x94'>\x93\x94"))
	f.Add("", []byte("<noscript><a href=?#>x<area href=/ alt=y><template></noscript>"))
	f.Add("text/html; charset=utf-16", []byte("<\x00a\x00 \x00h\x00r\x00e\x00f\x00=\x00x\x00>\x00"))
	f.Add("", []byte("<title/><plaintext></plaintext><a href=//h>&#0;"))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		p, err := Parse(testDoc, htmlHeader(contentType), body)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(testDoc, htmlHeader(contentType), slices.Clone(body))
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Fatalf("the second time it is %v, %v", again, err)
		}
		if !utf8.ValidString(p.Title) || !utf8.ValidString(p.Text) || len(p.Text) > MaxText || len(p.Terms) > MaxTerms {
			t.Errorf("title %q, text %q", p.Title, p.Text)
		}
		seen := make(map[string]bool)
		for _, link := range p.Links {
			id, err := Identity(link.Target)
			if err != nil || id != link.Target || seen[id] || id == "http://example.com/dir/page.html" {
				t.Errorf("target %q: %q, %v", link.Target, id, err)
			}
			seen[id] = true
			for _, text := range link.Anchors {
				if text == "" || len(text) > MaxAnchor || !utf8.ValidString(text) || text != strings.Join(strings.Fields(text), " ") {
					t.Errorf("anchor %q", text)
				}
			}
		}
	})
}
