package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
)

// disk is a table of rows k00000, k00001 and so on, of which some match every query. A request
// passes over as many rows as script says and is then cut off.
type disk struct {
	Backend
	rows    int
	matches func(i int) bool
	samples []string
	value   []byte
	script  func(request int) cut
	passing func(ctx context.Context, i int) // called for each row

	mu       sync.Mutex
	sent     []string // where each request began
	named    []int    // how many ranges it named
	sampled  int
	inFlight atomic.Int64
	most     atomic.Int64
}

// cut says how a request ends.
type cut struct {
	after int // rows passed over or visited; negative: not at all
	tell  int // every how many rows the store names its progress; 0: never
	err   error
}

var errCut = status.Error(codes.DeadlineExceeded, "the request took too long")

func diskKey(i int) string { return fmt.Sprintf("k%05d", i) }

func (d *disk) ReadRows(ctx context.Context, _ string, rows Rows, _ Query, limit int, passed func(string), visit func(layout.Row) bool) error {
	d.most.Store(max(d.most.Load(), d.inFlight.Add(1)))
	defer d.inFlight.Add(-1)
	d.mu.Lock()
	how := d.script(len(d.sent))
	if rows.Reverse {
		d.sent = append(d.sent, rows.Ranges[len(rows.Ranges)-1].End)
	} else {
		d.sent = append(d.sent, rows.Ranges[0].Start)
	}
	d.named = append(d.named, len(rows.Ranges))
	d.mu.Unlock()
	over, visited := 0, 0
	for i := range d.rows {
		if rows.Reverse {
			i = d.rows - 1 - i
		}
		if !rows.Ranges.Contain(diskKey(i)) {
			continue
		}
		if over == how.after {
			return how.err
		}
		if d.passing != nil {
			d.passing(ctx, i)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		over++
		switch {
		case !d.matches(i):
			if how.tell > 0 && over%how.tell == 0 && passed != nil {
				passed(diskKey(i))
			}
		case !visit(layout.Row{Key: diskKey(i), Items: []layout.Item{{Family: layout.LockFamily, Value: d.value}}}):
			return nil
		default:
			if visited++; visited == limit {
				return nil
			}
		}
	}
	return nil
}

func (d *disk) SampleKeys(context.Context, string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sampled++
	return d.samples, nil
}

func (d *disk) store() *Store { return New(context.Background(), d, &telemetry.Counters{}) }

func (d *disk) want(rows Rows) (keys []string) {
	for i := range d.rows {
		if rows.Ranges.Contain(diskKey(i)) && d.matches(i) {
			keys = append(keys, diskKey(i))
		}
	}
	if rows.Reverse {
		slices.Reverse(keys)
	}
	return keys
}

func uncut(int) cut   { return cut{after: -1} }
func never(int) bool  { return false }
func always(int) bool { return true }

// readAll is the rows of a pass, whose pages must be in order and tell the truth about the rest.
func readAll(t interface{ Fatalf(string, ...any) }, ctx context.Context, p *Pass) (keys []string, err error) {
	whole := p.rest
	for page, err := range p.Pages(ctx) {
		if err != nil {
			return keys, err
		}
		for _, r := range page.Rows {
			keys = append(keys, r.Key)
		}
		seen, kept := false, page.Rest.End == whole.End
		if p.rows.Reverse {
			kept = page.Rest.Start == whole.Start
		}
		if len(keys) > 0 {
			seen = catalog.InRange(page.Rest, keys[len(keys)-1])
		}
		if page.More && seen || !kept {
			t.Fatalf("after %q the rest is %q", keys, page.Rest)
		}
	}
	return keys, nil
}

// Whatever is cut off where, every row is visited once, in order.
func TestPassVisitsEachRowOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d := &disk{rows: rapid.IntRange(0, 60).Draw(rt, "rows")}
		matching := rapid.SliceOfN(rapid.Bool(), d.rows, d.rows).Draw(rt, "matching")
		d.matches = func(i int) bool { return matching[i] }
		for _, i := range rapid.SliceOf(rapid.IntRange(0, 70)).Draw(rt, "samples") {
			d.samples = append(d.samples, diskKey(i))
		}
		cuts := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) cut {
			return cut{after: rapid.IntRange(1, 20).Draw(rt, "after"), tell: 1, err: rapid.SampledFrom([]error{
				errCut, context.DeadlineExceeded, status.Error(codes.Unavailable, "moved"), nil,
			}).Draw(rt, "err")}
		}), 1, 10).Draw(rt, "cuts")
		d.script = func(request int) cut {
			c := cuts[request%len(cuts)]
			if c.err == nil { // an answer is complete, or has an error
				c.after = -1
			}
			return c
		}
		rows := Rows{Reverse: rapid.Bool().Draw(rt, "reverse")}
		rows.Ranges = catalog.Union(rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) model.Range {
			r := model.Between(diskKey(rapid.IntRange(0, 60).Draw(rt, "from")), "")
			if to := rapid.IntRange(0, 80).Draw(rt, "to"); to < 70 {
				r.End = diskKey(to)
			}
			return r
		}), 1, 5).Draw(rt, "ranges")...)
		size := PageSize{Rows: rapid.IntRange(0, 5).Draw(rt, "page"), First: rapid.IntRange(0, 2).Draw(rt, "first"), Cells: rapid.IntRange(0, 7).Draw(rt, "cells")}
		pass := d.store().NewPassOver("t", rows, Pending(), size)
		if ask := rapid.IntRange(0, 3).Draw(rt, "ask"); ask > 0 {
			pass.Ask(ask)
		}
		got, err := readAll(rt, t.Context(), pass)
		if want := d.want(rows); err != nil || !slices.Equal(got, want) {
			rt.Fatalf("%q, %v; want %q", got, err, want)
		}
	})
}

// A range without a single match is passed over by what the server says of its progress.
func TestPassGoesOnBehindTheLastScannedRow(t *testing.T) {
	t.Parallel()
	d := &disk{rows: 20, matches: func(i int) bool { return i == 19 }, script: func(int) cut { return cut{after: 6, tell: 3, err: errCut} }}
	got, err := readAll(t, t.Context(), d.store().NewPass("t", model.All(), Pending(), PageSize{}))
	if err != nil || !slices.Equal(got, []string{"k00019"}) {
		t.Errorf("%q, %v", got, err)
	}
	if want := []string{"", "k00005\x00", "k00011\x00", "k00017\x00"}; !slices.Equal(d.sent, want) {
		t.Errorf("requests began at %q, want %q", d.sent, want)
	}
}

// The same from the last row to the first, in one request at a time and in parts.
func TestPassGoesOnBelowTheLastScannedRow(t *testing.T) {
	t.Parallel()
	for name, samples := range map[string][]string{"one request at a time": nil, "parts": {"k00004", "k00009"}} {
		d := &disk{rows: 20, matches: func(i int) bool { return i == 0 }, samples: samples, script: func(int) cut { return cut{after: 6, tell: 3, err: errCut} }}
		got, err := readAll(t, t.Context(), d.store().NewPassOver("t", Rows{Ranges: catalog.Union(model.All()), Reverse: true}, Pending(), PageSize{}))
		if err != nil || !slices.Equal(got, []string{"k00000"}) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if want := []string{"", "k00014", "k00008", "k00002"}; samples == nil && !slices.Equal(d.sent, want) {
			t.Errorf("requests began below %q, want %q", d.sent, want)
		}
	}
}

// A pass that is asked for few rows reads no more of them; then its pages grow as ever.
func TestPassIsAskedForRows(t *testing.T) {
	t.Parallel()
	d := &disk{rows: 100, matches: always, script: uncut}
	p := d.store().NewPass("t", model.All(), Pending(), PageSize{First: 16, Rows: 64})
	var got []int
	for _, ask := range []int{1, 3, 0, 100} {
		if ask > 0 {
			p.Ask(ask)
		}
		page, err := p.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, len(page.Rows))
	}
	if want := []int{1, 3, 6, 64}; !slices.Equal(got, want) {
		t.Errorf("pages of %d rows, want %d", got, want)
	}
}

// Requests that get nowhere end the pass, with a word on where it stands.
func TestPassEndsWithoutProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &disk{rows: 20, matches: never, script: func(request int) cut {
			if request == 0 {
				return cut{after: 4, tell: 1, err: errCut}
			}
			return cut{after: 4, err: errCut}
		}}
		_, err := readAll(t, t.Context(), d.store().NewPass("table-7", model.All(), Pending(), PageSize{}))
		if !errors.Is(err, errCut) {
			t.Errorf("%v", err)
		}
		if text := fmt.Sprint(err); !strings.Contains(text, "table-7") || !strings.Contains(text, `k00003`) {
			t.Errorf("it does not name table and row: %v", err)
		}
		if len(d.sent) != 1+PassAttempts {
			t.Errorf("%d requests, want %d", len(d.sent), 1+PassAttempts)
		}
	})
}

// What does not pass by itself is no reason to send more.
func TestPassEndsWithADefiniteError(t *testing.T) {
	t.Parallel()
	d := &disk{rows: 20, matches: always, script: func(int) cut { return cut{after: 4, err: status.Error(codes.PermissionDenied, "no")} }}
	_, err := readAll(t, t.Context(), d.store().NewPass("t", model.All(), Pending(), PageSize{}))
	if err == nil || len(d.sent) != 1 {
		t.Errorf("%v after %d requests", err, len(d.sent))
	}
}

// What is not cut off costs what it always did: one request for each page, and no samples.
func TestPassOfASmallTable(t *testing.T) {
	t.Parallel()
	d := &disk{rows: 100, matches: always, script: uncut, samples: []string{"k00050"}}
	got, err := readAll(t, t.Context(), d.store().NewPass("t", model.All(), Pending(), PageSize{First: 16, Rows: 64}))
	if err != nil || len(got) != 100 {
		t.Errorf("%d rows, %v", len(got), err)
	}
	if want := []string{"", "k00015\x00", "k00047\x00"}; !slices.Equal(d.sent, want) || d.sampled != 0 {
		t.Errorf("requests began at %q, want %q; %d samples", d.sent, want, d.sampled)
	}
}

// Each request has its lifetime, and the pass as long as it takes.
func TestPassOutlivesItsRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		d := &disk{rows: 1000, matches: func(i int) bool { return i == 999 }, script: func(int) cut { return cut{after: -1, tell: 1} }}
		d.passing = func(ctx context.Context, _ int) {
			if at, ok := ctx.Deadline(); !ok || time.Until(at) > model.DefaultTiming.RequestLifetime {
				t.Error("a request without its lifetime")
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		got, err := readAll(t, t.Context(), d.store().NewPass("t", model.All(), Pending(), PageSize{}))
		if err != nil || !slices.Equal(got, []string{"k00999"}) {
			t.Errorf("%q, %v", got, err)
		}
		if took := time.Since(started); took < 1000*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// A pass that has parts reads them in parallel, within its budget of requests.
func TestPassReadsAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		d := &disk{rows: 3200, matches: func(i int) bool { return i%100 == 7 }, script: func(int) cut { return cut{after: -1, tell: 1} }}
		d.passing = func(ctx context.Context, _ int) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		for i := range 31 {
			d.samples = append(d.samples, diskKey(100*i+100))
		}
		got, err := readAll(t, t.Context(), d.store().NewPass("t", model.All(), Pending(), PageSize{Rows: 100}))
		if err != nil || !slices.Equal(got, d.want(Rows{Ranges: catalog.Union(model.All())})) {
			t.Errorf("%q, %v", got, err)
		}
		if n := d.most.Load(); n != PassRequests {
			t.Errorf("%d requests at once, want %d", n, PassRequests)
		}
		if took, serial := time.Since(started), 3200*time.Second; took > serial/PassRequests*3/2 {
			t.Errorf("it took %v, one after the other %v", took, serial)
		}
		if d.sampled != 1 {
			t.Errorf("%d samples", d.sampled)
		}
	})
}

// newDense is a table of 40 MB, all of which matches. The second request begins to read ahead; the
// first part is half of the table.
func newDense() *disk {
	d := &disk{rows: 400, matches: always, value: make([]byte, 100<<10), script: func(request int) cut {
		if request == 0 {
			return cut{after: 1, err: errCut}
		}
		return cut{after: -1}
	}}
	for i := 200; i < 400; i += 5 {
		d.samples = append(d.samples, diskKey(i))
	}
	return d
}

// What is read ahead stays within the budget of bytes, and whoever reads on gets everything, though
// what comes later has filled the budget.
func TestPassBuffersWithinItsBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDense()
		p := d.store().NewPass("t", model.All(), Pending(), PageSize{})
		defer p.Close()
		rows := 0
		for n, more := 0, true; more; n++ {
			page, err := p.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			rows, more = rows+len(page.Rows), page.More
			synctest.Wait()
			p.Budget.mu.Lock()
			if ahead := p.Budget.bytes; ahead > PassBytes+partBytes+d.weight() || n == 1 && ahead < PassBytes-partBytes {
				t.Errorf("after page %d: %d bytes read ahead, the budget is %d", n, ahead, PassBytes)
			}
			p.Budget.mu.Unlock()
		}
		if rows != d.rows || p.Budget.bytes != 0 {
			t.Errorf("%d rows of %d; %d bytes are still reserved", rows, d.rows, p.Budget.bytes)
		}
	})
}

func (d *disk) weight() int { return len(d.value) + len(diskKey(0)) + itemBytes }

// A pass that is given up leaves nothing behind: neither what it has reserved nor a request.
func TestPassIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDense()
		p := d.store().NewPass("t", model.All(), Pending(), PageSize{})
		for page, err := range p.Pages(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if page.Rows[0].Key != diskKey(0) {
				break
			}
		}
		if p.Budget.bytes != 0 || d.inFlight.Load() != 0 || len(p.Budget.requests) != 0 {
			t.Errorf("%d bytes, %d requests are left", p.Budget.bytes, d.inFlight.Load())
		}
	})
}

// Passes that share a budget do not starve each other: a small table is read while a large one is.
func TestPassesShareABudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, _ int) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		large := &disk{rows: 100_000, matches: never, script: func(int) cut { return cut{after: -1, tell: 1} }, passing: slow}
		for i := range 99 {
			large.samples = append(large.samples, diskKey(1000*i+1000))
		}
		small := &disk{rows: 10, matches: always, script: uncut, passing: slow}
		budget, ctx := NewBudget(), t.Context()
		hog, stop := context.WithCancel(ctx)
		var gone sync.WaitGroup
		gone.Go(func() {
			p := large.store().NewPass("large", model.All(), Pending(), PageSize{})
			p.Budget = budget
			for range p.Pages(hog) {
			}
		})
		time.Sleep(5 * time.Minute)
		started := time.Now()
		p := small.store().NewPass("small", model.All(), Pending(), PageSize{})
		p.Budget = budget
		if got, err := readAll(t, ctx, p); err != nil || len(got) != 10 {
			t.Errorf("%q, %v", got, err)
		}
		if took := time.Since(started); took > 2*model.DefaultTiming.RequestLifetime {
			t.Errorf("a small table took %v beside a large one", took)
		}
		stop()
		gone.Wait()
	})
}

// A pass ends with its context, wherever it is.
func TestPassEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, samples := range map[string][]string{"one request at a time": nil, "ahead": {"k00100", "k00200"}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
			defer cancel()
			d := &disk{rows: 1000, matches: never, script: func(int) cut { return cut{after: -1, tell: 1} }, samples: samples}
			d.passing = func(ctx context.Context, _ int) {
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
			started := time.Now()
			_, err := readAll(t, ctx, d.store().NewPass("t", model.All(), Pending(), PageSize{}))
			if took := time.Since(started); !errors.Is(err, context.DeadlineExceeded) || took != 100*time.Second || d.inFlight.Load() != 0 {
				t.Errorf("%s: %v after %v", name, err, took)
			}
		})
	}
}

// What is found in no part moves the position all the same: to the end of each part, and within it
// as far as requests have come while nobody asked.
func TestPassTellsHowFarItHasCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &disk{rows: 60, matches: never, samples: []string{diskKey(20), diskKey(40)}, script: func(int) cut { return cut{after: 5, tell: 1, err: errCut} }}
		p := d.store().NewPass("t", model.All(), Pending(), PageSize{})
		defer p.Close()
		var at []string
		for more := true; more; {
			page, err := p.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			at, more = append(at, page.Rest.Start), page.More
			synctest.Wait()
		}
		if len(at) < 4 || at[0] != diskKey(4)+"\x00" || !slices.Contains(at, diskKey(20)) || !slices.Contains(at, diskKey(40)) || !slices.IsSorted(at) {
			t.Errorf("the pass came to %q", at)
		}
		if len(at) > 5 {
			t.Errorf("%d pages without rows were handed out one by one: %q", len(at), at)
		}
	})
}

// A store that does not come to anything in the time of a page has the time of a request.
func TestReadPageOfASlowStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &disk{rows: 10, matches: never, script: func(int) cut { return cut{after: -1, tell: 1} }}
		d.passing = func(ctx context.Context, i int) {
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Second):
			}
		}
		p, err := d.store().ReadPage(t.Context(), "t", model.All(), Pending(), PageSize{Time: 10 * time.Second})
		if err != nil || p.Rest.Start != diskKey(0)+"\x00" {
			t.Errorf("rest %q, %v", p.Rest, err)
		}
	})
}

// A page that is bounded in time tells how far it has come.
func TestReadPageWithinATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &disk{rows: 1000, matches: func(i int) bool { return i == 2 }, script: func(int) cut { return cut{after: -1, tell: 1} }}
		d.passing = func(ctx context.Context, i int) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		p, err := d.store().ReadPage(t.Context(), "t", model.All(), Pending(), PageSize{Time: 5500 * time.Millisecond})
		if err != nil || len(p.Rows) != 1 || !p.More || p.Rest.Start != "k00004\x00" {
			t.Errorf("%d rows, more: %v, rest %q, %v", len(p.Rows), p.More, p.Rest, err)
		}
	})
}
