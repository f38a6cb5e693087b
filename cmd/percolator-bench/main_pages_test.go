package main

import (
	"math"
	"slices"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// What a page costs is told for each number of pages and of workers, and the causes add up to all
// requests. Nothing is said about times.
func TestBenchPages(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	r := measured(t, "pages", "--pages", "6,12", "--workers", "1,2", "--changed", "2", "--collapse", "10ms")
	names := []string{"6 pages (workers: 1)", "6 pages (workers: 2)", "12 pages (workers: 1)", "12 pages (workers: 2)"}
	for _, table := range []string{"pages", "changed pages"} {
		if !slices.EqualFunc(r.Table(table).Rows, names, func(row *report.Row, name string) bool { return row.Name == name }) {
			t.Errorf("%s: %+v", table, r.Table(table))
		}
	}
	for i, name := range names {
		row := r.Table("pages").Row(name)
		if want := []float64{6, 6, 12, 12}[i]; row.Value("pages written") != want || row.Value("runs a page") <= 0 {
			t.Errorf("%s: %+v", name, row)
		}
		if n := r.Table("changed pages").Row(name).Value("pages written"); n != 2 {
			t.Errorf("%s: %v pages were changed, want 2", name, n)
		}
		sum := 0.
		for _, cause := range r.Table("requests a page").Rows {
			sum += cause.Value(name)
		}
		if all := row.Value("requests a page"); all < 1 || math.Abs(sum-all) > 1e-6*all {
			t.Errorf("%s: %v requests a page, and causes of %v", name, all, sum)
		}
	}
	if !slices.Contains(r.Notes, "each index says what its pages say") {
		t.Errorf("notes: %q", r.Notes)
	}
	refuses(t, "pages", []string{"--pages", "-1"}, []string{"--workers", "0"}, []string{"--pages", ""}, []string{"x"})
}
