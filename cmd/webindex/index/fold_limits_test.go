package index

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
)

// Pages with as many and as long links as a page may have, all of whose characters JSON escapes:
// what a fold leaves of them has to fit into one cell of the queue, and it always gets further.
func TestFoldOfLongLinks(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	const pages = 12
	f := fold{pending: Contributions{}, accounts: map[string]*folded{}, room: maxFoldBytes}
	for i := range pages {
		a := &folded{document: true}
		for l := range MaxTargetBytes / page.MaxURL {
			s := fmt.Sprintf("http://l.test/%d/%d?", i, l)
			a.to = append(a.to, s+strings.Repeat("&", page.MaxURL-len(s)))
		}
		url := fmt.Sprintf("http://p.test/%02d", i)
		f.accounts[url], f.pending[url] = a, Contribution{Links: true}
	}
	f.settle()
	settled := 0
	for _, a := range f.accounts {
		if a.settled {
			settled++
		}
	}
	left, err := json.Marshal(f.pending)
	if err != nil {
		t.Fatal(err)
	}
	if settled == 0 || settled == pages || len(left) > percolator.MaxValueBytes {
		t.Errorf("%d of %d pages are settled, and %d bytes are left", settled, pages, len(left))
	}
	for _, url := range f.next() {
		if f.pending[url].Links {
			t.Errorf("%s is read although there is no room", url)
		}
	}
}

// Which block a URL is in anybody can tell, so all that a fold writes may be in one row.
func TestFoldOfOneBlock(t *testing.T) {
	t.Parallel()
	if columns := 2 * maxFoldURLs; columns > percolator.MaxColumnsPerRow {
		t.Errorf("a fold may write %d columns of a row, a transaction %d", columns, percolator.MaxColumnsPerRow)
	}
}
