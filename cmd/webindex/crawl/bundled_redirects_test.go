package crawl_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
)

// addRedirects adds what is left of older servers: pages that forward, some of them more than once,
// to a copy, to nothing, or in a circle.
func (s *site) addRedirects() {
	for _, redirect := range []struct {
		status        int
		url, location string
	}{
		{302, "http://lights.example/home", "/start"},
		{301, "http://lights.example/start", "http://lights.example/index.html"},
		{301, "http://lights.example/glossary", "glossary/"},
		{303, "http://lights.example/printable/varn-head", "../print/varn-head.html#light"},
		{308, "http://harbours.example/greywater.html", "/greywater"},
		{301, "http://harbours.example/haddock%20hythe", "/haddock-hythe"},
		{307, "http://galley.example/bread", "//lights.example/lights/kelder-point.html"},
		{301, "http://lights.example/lights", "http://lights.example/lights/"}, // which is not there
		{301, "http://harbours.example/old/notices", "http://archive.example/notices"},
		{302, "http://harbours.example/notices/loop-a", "loop-b"},
		{302, "http://harbours.example/notices/loop-b", "loop-a"},
	} {
		s.redirect(redirect.status, redirect.url, redirect.location)
	}
	for i, e := range s.book.lights {
		s.redirectLight(i+1, e)
	}
}

// redirectLight forwards the old URL of a light, if a harbour still links to it.
func (s *site) redirectLight(number int, light entry) {
	for i, h := range s.book.harbours {
		if i%2 == 0 && h.fields[4] == light.name() {
			s.redirect(http.StatusMovedPermanently, fmt.Sprintf("http://%s/light.php?id=%d", lightsHost, number), s.book.urls[light.name()])
		}
	}
}

func (s *site) redirect(status int, url, location string) {
	header := http.Header{"Location": {location}, "Content-Type": {"text/html"}}
	body := fmt.Sprintf("<title>%d %s</title><p>It is <a href=\"%s\">here</a> now.\n", status, http.StatusText(status), location)
	s.addResponse(url, status, header, []byte(body))
}

// picture is a white dot as a PNG file.
const picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mP8/x8AAwMCAO+ip1sAAAAASUVORK5CYII="

// chart is an empty page as a PDF file. As it happens it contains what looks like a link.
const chart = "%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n" +
	"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R>>endobj\n4 0 obj<</Length 34>>stream\n" +
	"BT (<a href=\"x.html\">) Tj ET\nendstream endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"

// addOtherTypes adds what is retrieved but is no document.
func (s *site) addOtherTypes() {
	png, err := base64.StdEncoding.DecodeString(picture)
	if err != nil {
		s.book.missing = append(s.book.missing, "a picture")
	}
	missing := strings.ReplaceAll(registerPage("Not found", "<p>There is no such page, but <a href=\"/lights/varn-head.html\">Varn Head</a> is always there."), "\n", "\r\n")
	for _, other := range []struct {
		status           int
		url, contentType string
		body             string
	}{
		{200, "http://lights.example/robots.txt", "text/plain", "User-agent: *\nDisallow: /private/\n"},
		{200, "http://lights.example/style.css", "text/css", "body { font-family: serif }\n.nav a[href=\"/\"] { border: 0 }\n"},
		{200, "http://lights.example/tower.png", "image/png", string(png)},
		{200, "http://lights.example/chart.pdf", "application/pdf", chart},
		{404, "http://lights.example/gone.html", "text/html; charset=utf-8", missing},
		{404, "http://lights.example/lights/", "text/html; charset=utf-8", missing},
		{410, "http://harbours.example/notices/1931-06.html", "text/html", "<title>Gone</title>Struck out.\n"},
		{500, "http://lights.example/links.html?page=2", "text/html", "<title>Error</title>The server has run aground.\n"},
		{204, "http://galley.example/ping", "text/html", ""},
	} {
		s.addResponse(other.url, other.status, http.Header{"Content-Type": {other.contentType}}, []byte(other.body))
	}
}
