package crawl_test

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strconv"
	"strings"
)

// The register of lights: /, /lights/, /region/, /keepers/, /glossary/, /essays/ and some lists.

// registerPage puts content in the frame of a page of the register.
func registerPage(title, content string) string {
	return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>` + html.EscapeString(title) + ` - The register of lights</title>
<link rel="stylesheet" href="/style.css">
<script>document.documentElement.className = "js"; if (1 < 2) { /* <a href="/script-only.html">not a link</a> */ }</script>
</head>
<body>
<p class="nav"><a href="/"><img src="/tower.png" alt="The register of lights"></a> &middot; <a href="/region/north-skerries/">Regions</a>
&middot; <a href="/characters.html">Characters</a> &middot; <a href="/glossary/">Glossary</a>
<h1>` + html.EscapeString(title) + `</h1>
` + content + `
<hr>
<p class="foot">Corrections to <a href="mailto:register@lights.example">the registrar</a>. <a href="#top">Top of the page</a>
<p class="foot">See also <a href="http://harbours.example/">the harbour book</a> and <a href="http://galley.example/" rel="nofollow">the galley</a>.
</body>
</html>
`
}

func (s *site) addRegister() {
	b := s.book
	s.addHTML("http://"+lightsHost+"/", registerPage("The lights of the Kelder Coast", s.registerHome()))
	for i, e := range b.lights {
		url := b.urls[e.name()]
		s.addHTML(url, registerPage(e.name(), s.lightContent(url, i)))
		switch i % 6 { // some servers compress
		case 2:
			s.encodings[url] = "gzip"
		case 5:
			s.encodings[url] = "chunked"
		}
	}
	for _, region := range b.regions {
		url := b.urls[region]
		s.addHTML(url, registerPage(region, s.regionContent(url, region)))
	}
	for _, e := range b.keepers {
		url := b.urls[e.name()]
		s.addHTML(url, registerPage(e.name(), s.keeperContent(url, e)))
	}
	s.addLists()
	s.addGlossary("lights", registerPage)
	s.addEssays("lights", registerPage)
}

func (s *site) registerHome() string {
	var out strings.Builder
	url := "http://" + lightsHost + "/"
	out.WriteString("<p>Every light that is or was shown on the coast, from the coal basket of 1790 to the beacon that needs nobody.\n<ul>\n")
	for _, region := range s.book.regions {
		out.WriteString("<li>" + s.book.link(url, region) + "\n")
	}
	out.WriteString("</ul>\n<p>Lists: <a href=\"by-height.html\">by height</a>, <a href=\"by-year.html\">by year</a>, " +
		"<a href=\"characters.html\">by character</a>; <a href=\"map.html\">a map</a>, <a href=\"chart.pdf\">a chart to print</a>.\n<p>The keepers: ")
	for _, e := range s.book.keepers {
		out.WriteString(s.book.link(url, e.name()) + " ")
	}
	out.WriteString("\n<p>To read: ")
	for _, e := range s.book.essays {
		out.WriteString("<em>" + s.book.link(url, e.name()) + "</em> ")
	}
	return out.String()
}

func (s *site) lightContent(url string, i int) string {
	b := s.book
	e := b.lights[i]
	region, year, height, character, miles, keeper := e.fields[1], e.fields[2], e.fields[3], e.fields[4], e.fields[5], e.fields[6]
	var out strings.Builder
	fmt.Fprintf(&out, "<table>\n<tr><th>Region<td>%s\n<tr><th>Built<td>%s\n<tr><th>Height<td>%s&nbsp;m\n<tr><th>Character<td>%s\n",
		b.link(url, region), year, height, html.EscapeString(character))
	fmt.Fprintf(&out, "<tr><th>Range<td>%s nautical miles\n<tr><th>Best known keeper<td>%s\n</table>\n", miles, b.link(url, keeper))
	out.WriteString(b.paragraphs(url, e))
	for _, h := range b.harbours {
		if h.fields[4] == e.name() {
			out.WriteString("<p>Nearest harbour: " + b.link(url, h.name()) + "\n")
		}
	}
	for _, r := range b.recipes {
		if r.fields[2] == e.name() {
			out.WriteString("<p>Baked at this station: " + b.link(url, r.name()) + "\n")
		}
	}
	if i > 0 {
		out.WriteString(`<p><a href="` + slug(b.lights[i-1].name()) + `.html">previous light</a>` + "\n")
	}
	if i+1 < len(b.lights) {
		out.WriteString(`<p><a href="` + slug(b.lights[i+1].name()) + `.html">next light</a>` + "\n")
	}
	return out.String()
}

func (s *site) regionContent(url, region string) string {
	b := s.book
	var out strings.Builder
	out.WriteString("<p>Lights of this region from north to south.\n<dl>\n")
	for _, e := range b.lights {
		if e.fields[1] == region {
			fmt.Fprintf(&out, "<dt>%s <dd>%s, %s m, %s\n", b.link(url, e.name()), e.fields[2], e.fields[3], html.EscapeString(e.fields[4]))
		}
	}
	out.WriteString("</dl>\n<p>Harbours: ")
	for _, h := range b.harbours {
		if h.fields[1] == region {
			out.WriteString(b.link(url, h.name()) + " ")
		}
	}
	out.WriteString("\n<p>Other regions: ")
	for _, r := range b.regions {
		if r != region {
			out.WriteString(`<a href="../` + slug(r) + `/">` + html.EscapeString(r) + "</a> ")
		}
	}
	return out.String()
}

func (s *site) keeperContent(url string, e entry) string {
	b := s.book
	var out strings.Builder
	fmt.Fprintf(&out, "<p><i>Born %s, %s years in the service.</i>\n", e.fields[1], e.fields[2])
	out.WriteString(b.paragraphs(url, e) + "<p>Entries that name this keeper: ")
	for _, l := range b.lights {
		if l.fields[6] == e.name() {
			out.WriteString(b.link(url, l.name()) + " ")
		}
	}
	for _, essay := range b.essays {
		if essay.fields[2] == e.name() {
			out.WriteString("\n<p>Wrote <cite>" + b.link(url, essay.name()) + "</cite>")
		}
	}
	return out.String()
}

// addLists adds the lists of all lights in different orders, and the map.
func (s *site) addLists() {
	b := s.book
	number := func(e entry, field int) int {
		n, err := strconv.Atoi(e.fields[field])
		if err != nil {
			b.missing = append(b.missing, "a number for "+e.name())
		}
		return n
	}
	for _, list := range []struct {
		file, title string
		compare     func(x, y entry) int
		field       int
	}{
		{"by-height.html", "Lights by height", func(x, y entry) int { return number(y, 3) - number(x, 3) }, 3},
		{"by-year.html", "Lights by year", func(x, y entry) int { return number(x, 2) - number(y, 2) }, 2},
		{"characters.html", "Characters in use", func(x, y entry) int { return cmp.Compare(x.fields[4], y.fields[4]) }, 4},
	} {
		url := "http://" + lightsHost + "/" + list.file
		var out strings.Builder
		out.WriteString("<table>\n")
		for _, e := range slices.SortedStableFunc(slices.Values(b.lights), list.compare) {
			fmt.Fprintf(&out, "<tr><td>%s<td>%s\n", html.EscapeString(e.fields[list.field]), b.link(url, e.name()))
		}
		s.addHTML(url, registerPage(list.title, out.String()+"</table>"))
		s.encodings[url] = "deflate"
	}
	var areas strings.Builder
	areas.WriteString("<p>Click on a region.\n<img src=\"chart.png\" usemap=\"#coast\" alt=\"\">\n<map name=\"coast\">\n")
	for i, region := range b.regions {
		fmt.Fprintf(&areas, "<area shape=rect coords=\"0,%d,200,%d\" href=\"region/%s/\" alt=\"%s on the map\">\n", 50*i, 50*i+49, slug(region), region)
	}
	s.addHTML("http://"+lightsHost+"/map.html", registerPage("Map of the coast", areas.String()+"</map>"))
}

// addGlossary adds the terms of one host and an index of them.
func (s *site) addGlossary(host string, frame func(title, content string) string) {
	b := s.book
	index := "http://" + hostOf(host) + "/glossary/"
	var out strings.Builder
	out.WriteString("<p>Words that are used here without an explanation.\n<ul>\n")
	for _, e := range b.glossary {
		if e.fields[1] != host {
			continue
		}
		url := index + slug(e.name()) + ".html"
		// The index always links to the plain URL, other pages to the one in the book, see
		// addCopies.
		out.WriteString("<li><a href=\"" + slug(e.name()) + ".html\">" + html.EscapeString(e.name()) + "</a>\n")
		s.addHTML(url, frame(e.name(), b.paragraphs(url, e)+"<p><a href=\"./\">All words</a>"))
	}
	s.addHTML(index, frame("Glossary", out.String()+"</ul>"))
}

// addEssays adds the essays of one host.
func (s *site) addEssays(host string, frame func(title, content string) string) {
	b := s.book
	for _, e := range b.essays {
		if e.fields[1] == host {
			url := b.urls[e.name()]
			s.addHTML(url, frame(e.name(), "<p>by "+b.link(url, e.fields[2])+"\n"+b.paragraphs(url, e)))
		}
	}
}
