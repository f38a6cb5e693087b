package measure

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/cmd/webindex/crawl"
	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/load"
	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/cmd/webindex/verify"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// pagesBenchmark measures what a page costs the web index: requests by cause, time, processor and
// memory, with different numbers of pages and of workers.
type pagesBenchmark struct {
	Input       []string // WARC files, directories or addresses; none: webindex's own crawl
	Pages       []int    // of the input, and made up ones where it has fewer; 0: all of the input
	Outward     int      // links of each made up page that leave its site
	Workers     []int    // each with a client of its own
	Changed     int      // documents that change in the end
	Delay       time.Duration
	Concurrency int // of each worker
	Collapse    time.Duration
	NoVerify    bool
}

func (b *pagesBenchmark) check() error {
	if len(b.Pages) == 0 || len(b.Workers) == 0 {
		return usagef("--pages and --workers need a number")
	}
	return nil
}

func (b *pagesBenchmark) run(ctx context.Context, r *run) error {
	r.Title = fmt.Sprintf("what a page costs the web index; %.1f ms added to each request, %d runs at once in each worker", milliseconds(b.Delay), b.Concurrency)
	r.all = len(b.Pages) * len(b.Workers)
	for _, n := range b.Pages {
		responses, err := b.responses(ctx, n)
		if err != nil {
			return err
		}
		for _, workers := range b.Workers {
			name := fmt.Sprintf("%d pages (workers: %d)", len(responses), workers)
			if err := b.measure(ctx, name, responses, workers, r); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			r.step()
		}
	}
	return nil
}

// responses are the first n pages of the input, each URL once.
func (b *pagesBenchmark) responses(ctx context.Context, n int) (out []*crawl.Response, err error) {
	if len(b.Input) == 0 && n > 0 {
		return opsPages(ctx, n, b.Outward)
	}
	inputs := []*crawl.Input{}
	if len(b.Input) == 0 {
		inputs = append(inputs, crawl.OpenBundled())
	}
	for _, path := range b.Input {
		in, err := crawl.Open(path)
		if err != nil {
			return nil, err
		}
		defer in.Close() //nolint:errcheck // it was read
		inputs = append(inputs, in)
	}
	seen := map[string]bool{}
	for _, in := range inputs {
		for r, err := range in.Responses(ctx) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil || len(out) == n && n > 0 {
				continue // damaged
			}
			if url, err := page.Identity(r.URL); err == nil && !seen[url] {
				seen[url] = true
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// pagesCost is what some work has cost.
type pagesCost struct {
	wall, cpu           time.Duration
	causes              map[string]int64
	runs, conflicts     int64
	transactions, pages int64
}

func (c pagesCost) requests() int64 { return sumOf(c.causes) }

// pagesSite is a web index with its workers, all of it in this process.
type pagesSite struct {
	*environment
	clients []*percolator.Client
	workers []*observers.Worker
	sent    []*causeCounter
}

func (b *pagesBenchmark) start(ctx context.Context, workers int, emulator string) (*pagesSite, error) {
	s := &pagesSite{environment: newEnvironment(ctx, emulator, index.Schema())}
	_, oracle := s.distantOracle(ctx, b.Delay)
	for range workers {
		sent := newCauseCounter()
		client := s.environment.client(ctx, percolator.Config{Oracle: oracle}, append(delayed(b.Delay), sent.option())...)
		worker, _ := s.work(ctx, client, index.Registry(b.Collapse), observers.Config{Concurrency: b.Concurrency})
		s.clients, s.workers, s.sent = append(s.clients, client), append(s.workers, worker), append(s.sent, sent)
	}
	return s, s.orClose()
}

// total is what everything has cost so far.
func (s *pagesSite) total() pagesCost {
	c := pagesCost{cpu: cpuTime(), wall: time.Duration(time.Now().UnixNano()), causes: map[string]int64{}}
	for i, client := range s.clients {
		stats, worker := client.Stats(), s.workers[i].Stats()
		addTo(&c.causes, s.sent[i].counts().requests)
		c.causes["oracle"] += stats.Requests["Oracle"]
		c.conflicts, c.transactions, c.runs = c.conflicts+stats.Conflicts, c.transactions+stats.Transactions, c.runs+worker.Runs
	}
	return c
}

func (c pagesCost) since(before pagesCost) pagesCost {
	return pagesCost{
		wall: c.wall - before.wall, cpu: c.cpu - before.cpu, causes: minus(c.causes, before.causes), pages: c.pages,
		runs: c.runs - before.runs, conflicts: c.conflicts - before.conflicts, transactions: c.transactions - before.transactions,
	}
}

// load loads pages by the first client, and waits until the observers are idle.
func (s *pagesSite) load(ctx context.Context, responses []*crawl.Response) (c pagesCost, err error) {
	dir, err := os.MkdirTemp("", "percolator-bench")
	if err != nil {
		return c, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "pages.warc")
	if err := writeWARC(path, responses); err != nil {
		return c, err
	}
	before := s.total()
	l := &load.Loader{Client: s.clients[0], Log: slog.New(slog.DiscardHandler)}
	if err := l.Load(ctx, load.Path(path)); err != nil {
		return c, err
	}
	if err := s.workers[0].WaitIdle(ctx); err != nil {
		return c, err
	}
	c = s.total().since(before)
	c.pages = l.Counts().Changed
	for parked, err := range observers.ListParked(ctx, s.clients[0]) {
		if err != nil {
			return c, err
		}
		return c, fmt.Errorf("observer %s has given up on %s: %s", parked.Observer, parked.Cell, parked.Reason)
	}
	return c, nil
}

// measure may take a minute and half a second for each page.
func (b *pagesBenchmark) measure(ctx context.Context, name string, responses []*crawl.Response, workers int, r *run) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute+time.Duration(len(responses))*500*time.Millisecond)
	defer cancel()
	s, err := b.start(ctx, workers, r.emulator)
	if err != nil {
		return err
	}
	defer s.closeInto(&err)
	r.Emulator = s.emulator
	loaded, err := s.load(ctx, responses)
	if err != nil {
		return err
	}
	row := r.Table("pages").Row(name)
	loaded.into(row)
	var m runtime.MemStats
	debug.FreeOSMemory()
	runtime.ReadMemStats(&m)
	row.Add("MB in memory", int64(m.HeapAlloc>>20))
	loaded.causesInto(r.Table("requests a page"), name)
	if b.Changed > 0 {
		changed, err := s.load(ctx, changedCopies(responses, b.Changed))
		if err != nil {
			return err
		}
		changed.into(r.Table("changed pages").Row(name))
	}
	if b.NoVerify {
		return nil
	}
	r.Notes = []string{"each index says what its pages say"}
	return s.clients[0].View(ctx, func(ctx context.Context, snap *percolator.Snapshot) error {
		n, err := verify.Run(ctx, snap, func(d verify.Difference) {})
		if err == nil && n > 0 {
			err = fmt.Errorf("the index has %d differences to its pages", n)
		}
		return err
	})
}

func (c pagesCost) into(row *report.Row) {
	n := float64(max(1, c.pages))
	row.Add("pages written", c.pages, "seconds", c.wall.Seconds(), "pages/s", n/c.wall.Seconds(), "CPU ms a page", milliseconds(c.cpu)/n,
		"requests a page", float64(c.requests())/n, "transactions a page", float64(c.transactions)/n,
		"runs a page", float64(c.runs)/n, "conflicts", c.conflicts)
}

// causesInto adds a column to a table with a row for each cause, the most frequent first.
func (c pagesCost) causesInto(t *report.Table, name string) {
	for _, cause := range slices.SortedFunc(maps.Keys(c.causes), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.causes[b], c.causes[a]), strings.Compare(a, b))
	}) {
		t.Row(cause).Add(name, float64(c.causes[cause])/float64(max(1, c.pages)))
	}
}

// changedCopies are n of the responses with other content. Nothing else is fetched again.
func changedCopies(responses []*crawl.Response, n int) (changed []*crawl.Response) {
	later := slices.Clone(responses)
	for i, r := range responses {
		again := *r
		later[i] = &again
	}
	change(later, n)
	for i, r := range later {
		if len(r.Body) != len(responses[i].Body) {
			changed = append(changed, r)
		}
	}
	return changed
}
