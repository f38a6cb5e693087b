package measure

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"

	"github.com/gopercolator/percolator/cmd/webindex/crawl"
	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/load"
	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/cmd/webindex/verify"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// opsSite is a web index with a worker, all of it in this process.
type opsSite struct {
	*environment
	client *percolator.Client
	worker *observers.Worker
	sent   requestCounter

	mu      sync.Mutex
	origins map[readOrigin]*opsOrigin

	before observers.Stats
	stats  percolator.Stats
}

func startOps(ctx context.Context, v *opsVariant, b *opsBenchmark, emulator string) (s *opsSite, err error) {
	s = &opsSite{origins: map[readOrigin]*opsOrigin{}, environment: newEnvironment(ctx, emulator, index.Schema())}
	s.sent.own, s.sent.saw = true, s.read
	_, oracle := s.distantOracle(ctx, b.Delay)
	s.client = s.environment.client(ctx, percolator.Config{DisableBatching: !v.batching, DisablePrefetch: !v.prefetch, Oracle: oracle},
		append(delayed(b.Delay), s.sent.option())...)
	s.worker, _ = s.work(ctx, s.client, index.Registry(b.Collapse), observers.Config{Concurrency: b.Concurrency})
	return s, s.orClose()
}

// read counts a request to read by its origin.
func (s *opsSite) read(r *btpb.ReadRowsRequest) {
	origin, n := originOf(r)
	origin.columns = merged(origin)
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.origins[origin]
	if o == nil {
		o = &opsOrigin{readOrigin: origin}
		s.origins[origin] = o
	}
	o.requests, o.rows, o.cells = o.requests+1, o.rows+n.rows, o.cells+n.cells
}

// merged gives reads of columns that are named after pages one name: there are as many of them as
// pages.
func merged(o readOrigin) string {
	switch {
	case o.columns == "":
	case o.table == index.Links:
		return "(a page's)"
	case o.table == index.Passing.Table().Name:
		return "(an entry's)"
	}
	return strings.ReplaceAll(o.columns, "\x00", "·") // acknowledgments
}

// load loads a crawl, and counts until no observer has anything left to do.
func (s *opsSite) load(ctx context.Context, path string) (p opsPhase, err error) {
	l := &load.Loader{Client: s.client, Log: slog.New(slog.DiscardHandler)}
	if err := l.Load(ctx, load.Path(path)); err != nil {
		return p, err
	}
	if err := s.worker.WaitIdle(ctx); err != nil {
		return p, err
	}
	p = s.taken()
	p.pages = int(l.Counts().Changed)
	for parked, err := range observers.ListParked(ctx, s.client) {
		if err != nil {
			return p, err
		}
		return p, fmt.Errorf("observer %s has given up on %s: %s", parked.Observer, parked.Cell, parked.Reason)
	}
	return p, nil
}

// taken is what happened since it was last called.
func (s *opsSite) taken() (p opsPhase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p = opsPhase{requests: s.sent.take(), runs: map[string]int64{},
		reads: map[string]int64{readGet: 0, readScan: 0, readCheck: 0, readLook: 0, readSearch: 0, readOwn: 0}}
	for _, o := range s.origins {
		p.origins = append(p.origins, *o)
		p.reads[o.kind] += int64(o.requests)
	}
	clear(s.origins)
	slices.SortFunc(p.origins, func(a, b opsOrigin) int {
		return cmp.Or(b.requests-a.requests,
			strings.Compare(a.table, b.table), strings.Compare(a.kind, b.kind), strings.Compare(a.columns, b.columns))
	})
	worker, client := s.worker.Stats(), s.client.Stats()
	for name, o := range worker.Observers {
		p.runs[index.ObserverName(name)] += o.Runs - s.before.Observers[name].Runs
	}
	p.attempts = worker.Attempts - s.before.Attempts
	p.oracle, p.rowsRead = client.Requests["Oracle"]-s.stats.Requests["Oracle"], client.RowsRead-s.stats.RowsRead
	s.before, s.stats = worker, client
	return p
}

// verify compares the index with its pages.
func (s *opsSite) verify(ctx context.Context) error {
	return s.client.View(ctx, func(ctx context.Context, snap *percolator.Snapshot) error {
		n, err := verify.Run(ctx, snap, func(verify.Difference) {})
		if err == nil && n > 0 {
			err = fmt.Errorf("the index has %d differences to its pages", n)
		}
		return err
	})
}

// What a ReadRows request is for.
const (
	// Rows by key, for Get, GetMulti and what they meet: locks, older versions.
	readGet    = "get"
	readScan   = "scan"   // a range, for Scan
	readCheck  = "check"  // whether a row's notification is still there, before a run
	readLook   = "look"   // at rows by key, for locks and notifications of an entry
	readSearch = "search" // for notifications and locks, by workers that look for work or wait
	readOwn    = "own"    // of the library's own tables
)

// readOrigin is where a ReadRows request comes from, as far as can be told from the request.
type readOrigin struct{ kind, table, columns string }

// asked is how many rows and cells a request names; 0 of a range.
type asked struct{ rows, cells int }

// originOf tells who sends such a request. Filters name few columns by ranges and many by a
// pattern; see the filters of package percolator.
func originOf(r *btpb.ReadRowsRequest) (readOrigin, asked) {
	o := readOrigin{kind: readGet, table: r.TableName[strings.LastIndexByte(r.TableName, '/')+1:]}
	var f namedByFilter
	f.walk(r.Filter)
	keys := len(r.GetRows().GetRowKeys())
	switch {
	case ownTable(o.table):
		o.kind = readOwn
		return o, asked{keys, keys}
	case keys > 0 && slices.Contains(f.families, "lock"):
		o.kind = readLook
		return o, asked{keys, keys}
	case slices.Contains(f.families, "notify"), slices.Contains(f.families, "write"):
		// A read of write looks for commits at the end of a wait.
		o.kind = readSearch
		if ranges := r.GetRows().GetRowRanges(); len(ranges) == 1 &&
			string(ranges[0].GetEndKeyOpen()) == string(ranges[0].GetStartKeyClosed())+"\x00" {
			// One row.
			o.kind = readCheck
		}
		return o, asked{}
	case keys == 0:
		o.kind = readScan
	}
	slices.Sort(f.columns)
	f.columns = slices.Compact(f.columns)
	if o.columns = strings.Join(f.columns, " "); f.values {
		o.columns += " (of a primary)"
	}
	return o, asked{keys, keys * max(1, len(f.columns))}
}

// namedByFilter is what a filter lets through.
type namedByFilter struct {
	columns  []string
	families []string // of which all columns pass
	values   bool     // it looks at values
}

func (f *namedByFilter) walk(filter *btpb.RowFilter) {
	switch x := filter.GetFilter().(type) {
	case *btpb.RowFilter_Chain_:
		for _, part := range x.Chain.Filters {
			f.walk(part)
		}
	case *btpb.RowFilter_Interleave_:
		for _, part := range x.Interleave.Filters {
			f.walk(part)
		}
	case *btpb.RowFilter_ColumnRangeFilter:
		if from := string(x.ColumnRangeFilter.GetStartQualifierClosed()); from != "" {
			f.columns = append(f.columns, from)
		} else {
			f.families = append(f.families, x.ColumnRangeFilter.FamilyName)
		}
	case *btpb.RowFilter_ColumnQualifierRegexFilter:
		for _, c := range strings.Split(string(x.ColumnQualifierRegexFilter), "|") {
			column, _ := strconv.Unquote(`"` + c + `"`) //nolint:errcheck // it has letters, digits and \x.. only
			f.columns = append(f.columns, column)
		}
	case *btpb.RowFilter_ValueRangeFilter:
		f.values = true
	}
}

// opsCrawl is what is loaded: a crawl, and the same crawl later, when some of its pages have
// changed.
type opsCrawl struct {
	first, later string // WARC files
	pages        int    // responses
	changed      int    // of them, in the later crawl
}

// writeOpsCrawl writes a crawl of so many pages: those of the crawl that comes with webindex and,
// if these are not enough, made up ones.
func writeOpsCrawl(ctx context.Context, dir string, pages, changed int) (opsCrawl, error) {
	responses, err := opsPages(ctx, pages, madeUpLinks)
	c := opsCrawl{first: filepath.Join(dir, "first.warc"), later: filepath.Join(dir, "later.warc"), pages: len(responses)}
	if err == nil {
		err = writeWARC(c.first, responses)
	}
	c.changed = change(responses, changed)
	return c, errors.Join(err, writeWARC(c.later, responses))
}

// opsPages are the pages of a crawl, each URL once. outward is how many links of each made up page
// leave its site.
func opsPages(ctx context.Context, pages, outward int) (out []*crawl.Response, err error) {
	at := map[string]int{}
	for r, err := range crawl.OpenBundled().Responses(ctx) {
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
		out = append(out, madeUpPage(random, i, pages, outward))
	}
	return out, nil
}

// Made up pages have so many links, and come in sites of so many pages.
const (
	madeUpLinks = 8
	madeUpSite  = 200
)

// madeUpPage is a document of a hundred words with links to others, most of them to the first pages
// of its site or, where they lead outward, of all.
func madeUpPage(random *rand.Rand, i, pages, outward int) *crawl.Response {
	const words, vocabulary = 100, 5000
	var b strings.Builder
	fmt.Fprintf(&b, "<!DOCTYPE html><title>Page %d</title><p>", i)
	for range words {
		fmt.Fprintf(&b, "word%d ", int(float64(vocabulary)*random.Float64()*random.Float64()))
	}
	site := i / madeUpSite * madeUpSite
	for l := range madeUpLinks {
		first, size := site, min(madeUpSite, pages-site)
		if l < outward {
			first, size = 0, pages
		}
		to := first + int(float64(size)*random.Float64()*random.Float64())
		fmt.Fprintf(&b, "<a href=%q>more of %d</a> ", madeUpURL(to), to%7)
	}
	header := http.Header{"Content-Type": {"text/html; charset=utf-8"}}
	return &crawl.Response{URL: madeUpURL(i), Status: http.StatusOK, Header: header, Body: []byte(b.String())}
}

func madeUpURL(i int) string { return fmt.Sprintf("http://made-up-%d.test/%d", i/madeUpSite, i) }

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

func writeWARC(path string, responses []*crawl.Response) error {
	var b bytes.Buffer
	for _, r := range responses {
		var block bytes.Buffer
		fmt.Fprintf(&block, "HTTP/1.1 %d %s\r\n", r.Status, http.StatusText(r.Status))
		if err := r.Header.Write(&block); err != nil {
			return err
		}
		fmt.Fprintf(&block, "\r\n%s", r.Body)
		fmt.Fprintf(&b, "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: %s\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n",
			r.URL, block.Len(), block.Bytes())
	}
	return os.WriteFile(path, b.Bytes(), 0o600)
}
