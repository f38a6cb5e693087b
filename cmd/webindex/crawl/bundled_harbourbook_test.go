package crawl_test

import (
	"fmt"
	"html"
	"strconv"
	"strings"
)

// The harbour book: /, a page for each harbour without an extension, /tides/, /glossary/ and
// /essays/.

func harbourPage(title, content string) string {
	return `<html><head><meta http-equiv="Content-Type" content="text/html; charset=utf-8"><title>` + html.EscapeString(title) + ` | Harbour book</title></head>
<body bgcolor=white>
<table width=100%><tr><td><a href=http://harbours.example/>Harbour book</a><td><a href=/glossary/>Words</a><td><a href="/tides/kelderby.html">Tides</a></table>
<h2>` + html.EscapeString(title) + `</h2>
` + content + `
<address>The harbour masters of the coast. Lights: see the <A HREF="http://LIGHTS.example/">register</A>.</address>
</body></html>
`
}

func (s *site) addHarbourBook() {
	b := s.book
	home := "http://" + harboursHost + "/"
	var out strings.Builder
	out.WriteString("<p>What a master wants to know before coming in, and some things that he will find out anyway.\n")
	for _, region := range b.regions {
		out.WriteString("<h3>" + b.link(home, region) + "</h3>\n<ul>")
		for _, h := range b.harbours {
			if h.fields[1] == region {
				out.WriteString("<li>" + b.link(home, h.name()) + " (" + h.fields[2] + " m)\n")
			}
		}
		out.WriteString("</ul>\n")
	}
	s.addHTML(home, harbourPage("All harbours", out.String()))
	for i, h := range b.harbours {
		url := b.urls[h.name()]
		s.addHTML(url, harbourPage(h.name(), s.harbourContent(url, i)))
		s.addHTML(tidesURL(h), harbourPage("Tides at "+h.name(), s.tideContent(tidesURL(h), h)))
	}
	s.addGlossary("harbours", harbourPage)
	s.addEssays("harbours", harbourPage)
}

func tidesURL(h entry) string { return "http://" + harboursHost + "/tides/" + slug(h.name()) + ".html" }

func (s *site) harbourContent(url string, i int) string {
	b := s.book
	h := b.harbours[i]
	var out strings.Builder
	fmt.Fprintf(&out, "<p>Region %s, depth at the quay %s metres, range at springs %s metres.\n", b.link(url, h.fields[1]), h.fields[2], h.fields[3])
	out.WriteString(b.paragraphs(url, h))
	// Half of the harbours know the lights by the numbers that they had on the old server, see
	// addRedirects.
	if i%2 == 0 {
		fmt.Fprintf(&out, "<p>Light: <a href=\"http://%s/light.php?id=%d\">%s</a>\n", lightsHost, b.lightNumber(h.fields[4]), html.EscapeString(h.fields[4]))
	} else {
		out.WriteString("<p>Light: " + b.link(url, h.fields[4]) + "\n")
	}
	out.WriteString("<p><a href=\"tides/" + slug(h.name()) + ".html\">Tides at " + html.EscapeString(h.name()) + "</a>\n")
	for _, r := range b.recipes {
		if r.fields[2] == h.name() {
			out.WriteString("<p>From the bakeries: " + b.link(url, r.name()) + "\n")
		}
	}
	return out.String()
}

// lightNumber is the number of a light on the old server, from 1 on.
func (b *book) lightNumber(name string) int {
	for i, e := range b.lights {
		if e.name() == name {
			return i + 1
		}
	}
	b.missing = append(b.missing, name)
	return 0
}

// tideContent is a made-up tide table: high waters 12 h 25 min apart, their heights between springs
// and neaps.
func (s *site) tideContent(url string, h entry) string {
	tenths, err := strconv.Atoi(strings.Replace(h.fields[3], ".", "", 1))
	if err != nil {
		s.book.missing = append(s.book.missing, "a tidal range for "+h.name())
	}
	late := len(h.name())*7 + tenths // minutes after the standard port
	var out strings.Builder
	fmt.Fprintf(&out, "<p>High waters at %s in the first half of March, heights in metres above the sill. Add an hour in summer.\n", s.book.link(url, h.name()))
	out.WriteString("<table border=1><tr><th>day<th>morning<th>height<th>evening<th>height\n")
	for day := range 14 {
		fmt.Fprintf(&out, "<tr><td>%d", day+1)
		for half := range 2 {
			n := 2*day + half
			minute := (late + 745*n) % 1440
			fromSprings := min(n, 28-n)                // half tides since the nearest springs, at most 14
			height := tenths - tenths*fromSprings/2/14 // neaps have half the range
			fmt.Fprintf(&out, "<td>%02d:%02d<td>%d.%d", minute/60, minute%60, height/10, height%10)
		}
		out.WriteString("\n")
	}
	return out.String() + "</table>\n<p>" + s.book.link(url, "spring tide") + " and " + s.book.link(url, "slack water") + " are explained elsewhere.\n"
}
