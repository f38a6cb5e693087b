package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gopercolator/percolator/internal/webindex/bundled"
	"github.com/gopercolator/percolator/internal/webindex/crawl"
	"github.com/gopercolator/percolator/internal/webindex/page"
)

// opsCrawl is what is loaded: a crawl, and the same crawl later, when some of its pages have
// changed.
type opsCrawl struct {
	first, later string // WARC files
	dir          string
	pages        int // responses
	changed      int // of them, in the later crawl
}

// writeOpsCrawl writes a crawl of so many pages: those of the crawl that comes with webindex and,
// if these are not enough, made up ones.
func writeOpsCrawl(ctx context.Context, pages, changed int) (_ *opsCrawl, err error) {
	responses, err := opsPages(ctx, pages)
	if err != nil {
		return nil, err
	}
	c := &opsCrawl{pages: len(responses)}
	if c.dir, err = os.MkdirTemp("", "percolator-bench"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.remove()
		}
	}()
	if c.first, err = writeWARC(c.dir, "first.warc", responses); err != nil {
		return nil, err
	}
	c.changed = change(responses, changed)
	c.later, err = writeWARC(c.dir, "later.warc", responses)
	return c, err
}

func (c *opsCrawl) remove() { _ = os.RemoveAll(c.dir) }

// opsPages are the pages of a crawl, each URL once.
func opsPages(ctx context.Context, pages int) (out []*crawl.Response, err error) {
	at := map[string]int{}
	for r, err := range bundled.Open().Responses(ctx) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			continue // it comes with damaged records
		}
		url, err := page.Identity(r.URL)
		if err != nil {
			continue
		}
		if i, again := at[url]; again {
			out[i] = r // the last one counts
		} else if len(out) < pages {
			at[url] = len(out)
			out = append(out, r)
		}
	}
	random := rand.New(rand.NewPCG(3, 4))
	for i := 0; len(out) < pages; i++ {
		out = append(out, madeUpPage(random, i, pages))
	}
	return out, nil
}

// madeUpPage is a document of a hundred words, with eight links to others; the first pages are
// linked to most.
func madeUpPage(random *rand.Rand, i, pages int) *crawl.Response {
	const words, links, vocabulary = 100, 8, 5000
	var b strings.Builder
	fmt.Fprintf(&b, "<!DOCTYPE html><title>Page %d</title><p>", i)
	for range words {
		fmt.Fprintf(&b, "word%d ", int(float64(vocabulary)*random.Float64()*random.Float64()))
	}
	for range links {
		to := int(float64(pages) * random.Float64() * random.Float64())
		fmt.Fprintf(&b, "<a href=%q>more of %d</a> ", madeUpURL(to), to%7)
	}
	header := http.Header{"Content-Type": {"text/html; charset=utf-8"}}
	return &crawl.Response{URL: madeUpURL(i), Status: http.StatusOK, Header: header, Body: []byte(b.String())}
}

func madeUpURL(i int) string { return fmt.Sprintf("http://made-up.test/%d", i) }

// change gives so many of the documents another text and one link more, spread over the crawl, and
// returns how many there were.
func change(responses []*crawl.Response, n int) int {
	var documents []*crawl.Response
	for _, r := range responses {
		if page.IsDocument(r.Status, r.Header) {
			documents = append(documents, r)
		}
	}
	n = min(n, len(documents))
	for i := range n {
		r, to := documents[i*len(documents)/n], documents[(i*7+3)%len(documents)]
		r.Body = fmt.Appendf(append([]byte(nil), r.Body...), "\n<p>Seen again, for the %dth time.</p><a href=%q>see also</a>", i, to.URL)
	}
	return n
}

func writeWARC(dir, name string, responses []*crawl.Response) (path string, err error) {
	path = filepath.Join(dir, name)
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := crawl.NewPlainWriter(f)
	for _, r := range responses {
		if err := w.WriteResponse(r, time.Unix(0, 0)); err != nil {
			return "", err
		}
	}
	return path, nil
}
