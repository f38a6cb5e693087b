package console

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/percolator"
)

var rowLinks = regexp.MustCompile(`<li><a class="key" href="[^"]+">([^<]+)</a></li>`)

func keysOn(body string) (keys []string) {
	for _, m := range rowLinks.FindAllStringSubmatch(body, -1) {
		keys = append(keys, m[1])
	}
	return keys
}

// Nobody has to know a key: rows are listed by the beginning of their keys, page after page, and a
// row of which only a lock is stored is among them. Listing resolves no lock.
func TestRowsAreFoundWithoutTheirKeys(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	var cells []percolator.Cell
	for i := range browsedRows + 10 {
		cells = append(cells, document(fmt.Sprintf("com.example/%03d", i), "contents"))
	}
	c.set("value", append(cells, document("org.example/x", "contents"), document("with\x00zero", "contents"))...)
	c.strand(1<<40, document("com.example/locked", "title"))
	h := c.handler()
	body := get(t, h, "/row")
	if !strings.Contains(body, `<a href="row?browse=1&amp;row=&amp;table=documents">documents</a>`) {
		t.Fatalf("the page does not lead to a table's rows:\n%s", body)
	}
	body = get(t, h, rowOf("documents", "com.example/", "browse", "1"))
	keys := keysOn(body)
	if len(keys) != browsedRows || keys[0] != "com.example/000" {
		t.Fatalf("%d keys: %v", len(keys), keys)
	}
	next := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(body)
	if next == nil {
		t.Fatal("there is no next page")
	}
	keys = keysOn(get(t, h, "/"+strings.ReplaceAll(next[1], "&amp;", "&")))
	if len(keys) != 11 || keys[0] != "com.example/050" || keys[10] != "com.example/locked" {
		t.Errorf("then %v", keys)
	}
	if keys = keysOn(get(t, h, rowOf("documents", ""))); len(keys) != browsedRows {
		t.Errorf("%d keys without a prefix", len(keys))
	}
	if keys = keysOn(get(t, h, rowOf("documents", "with", "browse", "1"))); len(keys) != 1 || keys[0] != `&#34;with\x00zero&#34;` {
		t.Errorf("%q", keys)
	}
	if body = get(t, h, rowOf("documents", "none", "browse", "1")); !strings.Contains(body, "No row has this prefix") {
		t.Error(body)
	}
	if w := serve(h, local(http.MethodGet, rowOf("documents", "com.example/locked"), nil)); !strings.Contains(w.Body.String(), "primary") {
		t.Error("listing the rows has resolved a lock")
	}
}
