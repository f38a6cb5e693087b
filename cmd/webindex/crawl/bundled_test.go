package crawl_test

import (
	"bytes"
	"flag"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/webindex/crawl"
	"github.com/gopercolator/percolator/cmd/webindex/page"
)

var update = flag.Bool("update", false, "write the crawl anew")

func responses(t *testing.T, warc []byte) []*crawl.Response {
	t.Helper()
	var all []*crawl.Response
	for resp, err := range crawl.ReadFrom(t.Context(), crawl.BundledName, bytes.NewReader(warc), int64(len(warc))) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, resp)
	}
	return all
}

// What is embedded is what the sources make. The compressed bytes may differ from one version of Go
// to the next.
func TestCrawlIsGenerated(t *testing.T) {
	t.Parallel()
	s, err := newSite()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("bundled.warc.gz", b.Bytes(), 0o644); err != nil { //nolint:gosec // as readable as the sources beside it
			t.Fatal(err)
		}
		t.Skip("written; the next run compares")
	}
	const hint = "run go test ./cmd/webindex/crawl -run Generated -update"
	compare(t, hint, s.Responses(), responses(t, crawl.BundledWARC))
	compare(t, "the reader does not read what was written", s.Responses(), responses(t, b.Bytes()))
}

// compare compares responses apart from their place in the file.
func compare(t *testing.T, hint string, want, got []*crawl.Response) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%d responses, want %d: %s", len(got), len(want), hint)
	}
	for i, w := range want {
		g := got[i]
		if g.URL != w.URL || g.Status != w.Status || !maps.EqualFunc(g.Header, w.Header, slices.Equal) || !bytes.Equal(g.Body, w.Body) {
			t.Errorf("response %d is of %s with status %d, want %s with %d and the same header and body: %s",
				i, g.URL, g.Status, w.URL, w.Status, hint)
		}
	}
}

func TestBundledCrawlIsReadWhole(t *testing.T) {
	t.Parallel()
	in := crawl.OpenBundled()
	n := 0
	for resp, err := range in.Responses(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if resp.Source != crawl.BundledName {
			t.Fatalf("source %q", resp.Source)
		}
		n++
	}
	if n != len(responses(t, crawl.BundledWARC)) || in.Offset() != in.Total() || in.Total() != int64(len(crawl.BundledWARC)) {
		t.Errorf("%d responses, %d of %d bytes", n, in.Offset(), in.Total())
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

// TestCrawlIsHard counts what the crawl is there for.
func TestCrawlIsHard(t *testing.T) {
	t.Parallel()
	identities := make(map[string]bool)
	clusters := make(map[string][]string)
	redirects := make(map[string]string)
	linked := make(map[string]int) // by target, the number of pages
	status := make(map[int]int)
	types := make(map[string]int)
	links, anchors := 0, 0
	for _, resp := range responses(t, crawl.BundledWARC) {
		id, err := page.Identity(resp.URL)
		if err != nil || identities[id] {
			t.Fatalf("%s: %v, or twice in the crawl: loading it again would process it again", resp.URL, err)
		}
		identities[id] = true
		status[resp.Status]++
		media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
		types[media]++
		if target, ok := page.RedirectTarget(resp.URL, resp.Status, resp.Header); ok {
			redirects[id] = target
		}
		if !page.IsDocument(resp.Status, resp.Header) {
			continue
		}
		p, err := page.Parse(resp.URL, resp.Header, resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if p.Truncated {
			t.Errorf("%s exceeds a limit", resp.URL)
		}
		clusters[p.Cluster] = append(clusters[p.Cluster], id)
		for _, link := range p.Links {
			links++
			linked[link.Target]++
			anchors += len(link.Anchors)
		}
	}
	t.Logf("%d responses, status %v, types %v, %d bytes of WARC", len(identities), status, types, len(crawl.BundledWARC))
	t.Logf("%d clusters, %d redirects, %d links, %d anchor texts", len(clusters), len(redirects), links, anchors)

	documents, copies, absent := 0, 0, 0
	for _, urls := range clusters {
		documents += len(urls)
		copies += len(urls) - 1
	}
	for target := range linked {
		if !identities[target] {
			absent++
		}
	}
	t.Logf("%d documents, %d of them copies, links to %d URLs that are not in the crawl", documents, copies, absent)
	for name, enough := range map[string]bool{
		"documents": documents >= 150, "copies": copies >= 20, "redirects": len(redirects) >= 15, "links": links >= 1500,
		"absent targets": absent >= 5, "types": types["image/png"] > 0 && types["application/pdf"] > 0,
		"errors": status[404] > 0 && status[410] > 0 && status[500] > 0, "size": len(crawl.BundledWARC) < 400_000,
	} {
		if !enough {
			t.Errorf("not as intended: %s", name)
		}
	}
	chain := redirects[redirects["http://lights.example/home"]]
	if chain != "http://lights.example/index.html" || linked["http://lights.example/home"] == 0 {
		t.Errorf("a chain of redirects that is linked to leads to %q", chain)
	}
	for id, target := range redirects {
		if redirects[target] == id && linked[id] > 0 {
			return // a circle that is linked to
		}
	}
	t.Error("no circle of redirects that is linked to")
}

func TestOddPages(t *testing.T) {
	t.Parallel()
	byURL := make(map[string]*crawl.Response)
	for _, resp := range responses(t, crawl.BundledWARC) {
		byURL[resp.URL] = resp
	}
	for url, want := range map[string]struct {
		title, term string
		links       int
	}{
		"http://lights.example/fr/phare-de-varn.html":          {"Le phare de Varn", "été", 2},
		"http://lights.example/fr/sainte-olwen.html":           {"Sainte-Olwen – la tour de l’abbaye", "répète", 2},
		"http://galley.example/ja/watch-bread.html":            {"当直のパン", "灯台", 2},
		"http://lights.example/ja/todai.html":                  {"ケルダー海岸の灯台", "アン", 2},
		"http://harbours.example/ru/greywater.html":            {"Порт Грейуотер", "побережья", 1},
		"http://harbours.example/is/storhavn.html":             {"Stórhavn", "verslun", 1},
		"http://galley.example/old/price-list.html":            {"Price list of 1931", "brûlée", 1},
		"http://lights.example/old/logbook.html":               {"A page from the log of Hob Island<title>", "colliers", 3},
		"http://galley.example/old/ovens.htm":                  {"Ovens of the coast", "biscuit", 4},
		"http://harbours.example/notices/1931-07.html":         {"Notice to mariners, July 1931", "mariners", 5},
		"http://harbours.example/notices/empty.html":           {"", "", 0},
		"http://lights.example/untitled.html":                  {"", "wren", 1},
		"http://harbours.example/archive/1912/list.html":       {"Harbours in 1912", "million", 4},
		"http://galley.example/print/all.html":                 {"Recipes to print", "soda", 4},
		"http://lights.example/lights/saint-olwen.html":        {"Saint Olwen - The register of lights", "nave", 0},
		"http://harbours.example/kelderby?session=8f3a":        {"Kelderby | Harbour book", "customs", 0},
		"http://mirror.example/lights/varn-head.html":          {"Varn Head - The register of lights", "granite", 0},
		"http://galley.example/recipe/seal-holm-fish-pie":      {"Seal Holm fish pie", "parsley", 0},
		"http://harbours.example/tides/heron-staith.html":      {"Tides at Heron Staith | Harbour book", "spring", 7},
		"http://lights.example/essays/a-night-on-watch.html":   {"A night on watch - The register of lights", "redwings", 0},
		"http://lights.example/region/greywater-firth/":        {"Greywater Firth - The register of lights", "coalhaven", 0},
		"http://harbours.example/glossary/holding-ground.html": {"holding ground | Harbour book", "anchor", 0},
	} {
		resp := byURL[url]
		if resp == nil || resp.Status != http.StatusOK {
			t.Errorf("%s is not in the crawl", url)
			continue
		}
		p, err := page.Parse(resp.URL, resp.Header, resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if p.Title != want.title || want.term != "" && p.Terms[want.term] == 0 || want.links > 0 && len(p.Links) != want.links {
			t.Errorf("%s: title %q, %q %d times, %d links:\n%s\n%v", url, p.Title, want.term, p.Terms[want.term], len(p.Links), p.Text, p.Links)
		}
	}
	latin, utf8 := byURL["http://lights.example/fr/phare-de-varn.html"], byURL["http://lights.example/fr/phare-de-varn-utf8.html"]
	if bytes.Equal(latin.Body, utf8.Body) || !bytes.Equal(page.Decode(latin.Header, latin.Body), page.Decode(utf8.Header, utf8.Body)) {
		t.Error("the same text in two charsets is not one cluster")
	}
}
