package measure

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
)

// opsBenchmark counts how many requests to Bigtable the web index makes.
//
// Without batching a request reads one row: GetMulti sends one for each, and no request waits for
// others. Without prefetch it reads one column: nothing is read ahead, and several columns of a row
// are several requests. So with neither, each cell that a transaction asks for is a request of its
// own, but for what it has read already: what the paper's library would do without the means of its
// section 2.5. Ranges that are scanned, the change that an observer reads together with its
// acknowledgment, and a worker's search for notifications are the same in all.
type opsBenchmark struct {
	Pages   int // of the crawl
	Changed int // of them, the second time
	// delay is added to each request to the store and to the oracle. It decides how many reads meet
	// and travel together.
	Delay time.Duration
	// Concurrent runs of observers; the paper's workers have thousands of threads.
	Concurrency int
	Collapse    time.Duration // see index.Collapse
	Detail      bool
}

func (b *opsBenchmark) check() error { return within("changed", b.Changed, 0, b.Pages) }

// opsVariant is the web index with some of the means that save requests.
type opsVariant struct {
	name               string
	batching, prefetch bool
	// All pages into an empty index; all pages again, some of them changed.
	phases [2]opsPhase
}

// opsPhases are their names.
var opsPhases = [2]string{"load", "changed pages"}

// opsPhase is what was counted while pages were loaded, until the observers were idle.
type opsPhase struct {
	pages    int              // that were written
	requests map[string]int64 // to Bigtable, by kind
	reads    map[string]int64 // ReadRows by what they are for
	origins  []opsOrigin      // of reads, most requests first
	runs     map[string]int64 // of observers, by name: those that committed

	oracle, rowsRead, attempts int64
}

// opsOrigin is a kind of read.
type opsOrigin struct {
	readOrigin
	requests, rows, cells int // named by them; 0 of ranges
}

func sumOf(counts map[string]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

func (p opsPhase) perPage(n int64) float64 { return float64(n) / float64(max(1, p.pages)) }

// run may take five minutes for each load and a second for each page of it.
func (b *opsBenchmark) run(ctx context.Context, r *run) error {
	ctx, cancel := context.WithTimeout(ctx, 8*(5*time.Minute+time.Duration(b.Pages)*time.Second))
	defer cancel()
	dir, err := os.MkdirTemp("", "percolator-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	pages, err := writeOpsCrawl(ctx, dir, b.Pages, b.Changed)
	if err != nil {
		return err
	}
	r.Title = fmt.Sprintf("requests of the web index to Bigtable, %d pages of which %d change; %.1f ms added to each request, %d runs at once",
		pages.pages, pages.changed, milliseconds(b.Delay), b.Concurrency)
	r.all = 8
	variants := []*opsVariant{{name: "neither"}, {name: "prefetch", prefetch: true}, {name: "batching", batching: true},
		{name: "batching and prefetch", batching: true, prefetch: true}}
	for _, v := range variants {
		if err := v.measure(ctx, b, pages, r); err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
	}
	for i, name := range opsPhases {
		for _, v := range variants {
			v.phases[i].into(r, name, v.name, b.Detail)
		}
		compare(r.Table("neither by both").Row(name), variants[0].phases[i], variants[3].phases[i])
	}
	chart := report.Chart{Name: "ops", Title: fmt.Sprintf("Web index, %d pages loaded", pages.pages),
		Y: report.Axis{Label: "requests to Bigtable a page"}}
	for _, kind := range []string{kindReadRows, "CheckAndMutateRow", "MutateRows"} {
		bars := r.Table("load").Line("", "", kind, nil)
		chart.Bars = append(chart.Bars, report.Bars{Name: kind, Values: bars.Y})
	}
	for _, v := range variants {
		chart.Categories = append(chart.Categories, v.name)
	}
	r.Draw(chart)
	r.Notes = append(r.Notes, "each index says what its pages say")
	return nil
}

const kindReadRows = "ReadRows"

// into adds the figures of a phase: for a page, for a run, and as they were counted.
func (p opsPhase) into(r *run, phase, variant string, detail bool) {
	row := r.Table(phase).Row(variant)
	r.Table(phase).Title = "requests a page"
	all := r.Table("counts").Row(phase + ": " + variant)
	r.Table("counts").Series = true
	each := func(name string, n int64) {
		row.Add(name, p.perPage(n))
		all.Add(name, n)
	}
	for _, kind := range []string{kindReadRows, "CheckAndMutateRow", "MutateRows"} {
		each(kind, p.requests[kind])
	}
	for _, kind := range slices.Sorted(maps.Keys(p.reads)) {
		each(kind, p.reads[kind])
	}
	each("all", sumOf(p.requests))
	each("oracle", p.oracle)
	origins, runs := r.Table("reads of "+phase+", "+variant), r.Table("runs of "+phase+", "+variant)
	origins.Series, runs.Series = !detail, !detail
	for _, o := range p.origins {
		row := origins.Append(strings.TrimSpace(o.kind + " " + o.table + " " + o.columns))
		row.Add(kindReadRows+" a page", p.perPage(int64(o.requests)), "requests", o.requests, "rows", o.rows, "cells", o.cells)
	}
	for _, name := range slices.Sorted(maps.Keys(p.runs)) {
		runs.Row(name).Add("runs a page", p.perPage(p.runs[name]))
	}
	all.Add("pages", p.pages, "runs", sumOf(p.runs), "attempts", p.attempts, "rows read", p.rowsRead)
}

// compare tells how many times fewer requests became, for a page. How often observers run for a
// page depends on what joins while they wait, so the two have not quite the same number of runs.
func compare(row *report.Row, without, with opsPhase) {
	ratio := func(of func(p opsPhase) int64) float64 {
		return without.perPage(of(without)) / with.perPage(max(1, of(with)))
	}
	reads := ratio(func(p opsPhase) int64 { return p.requests[kindReadRows] })
	row.Add(kindReadRows, reads, "by key", ratio(func(p opsPhase) int64 { return p.reads[readGet] }),
		"a run", reads/ratio(func(p opsPhase) int64 { return sumOf(p.runs) }),
		"all requests", ratio(func(p opsPhase) int64 { return sumOf(p.requests) }))
}

// measure loads the pages twice, waits for the observers each time, and verifies the index.
func (v *opsVariant) measure(ctx context.Context, b *opsBenchmark, pages opsCrawl, r *run) (err error) {
	s, err := startOps(ctx, v, b, r.emulator)
	if err != nil {
		return err
	}
	defer s.closeInto(&err)
	r.Emulator = s.emulator
	s.taken() // connecting
	for i, phase := range []struct {
		path  string
		wrote int
	}{{pages.first, pages.pages}, {pages.later, pages.changed}} {
		if v.phases[i], err = s.load(ctx, phase.path); err != nil {
			return err
		}
		if n := v.phases[i].pages; n != phase.wrote {
			return fmt.Errorf("%d pages were written, not %d", n, phase.wrote)
		}
		r.step()
	}
	return s.verify(ctx)
}
