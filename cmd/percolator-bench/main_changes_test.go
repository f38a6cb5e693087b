package main

import (
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// What a change costs is told for each concurrency. Without conflicts the counts of conditional
// mutations follow from the protocol: for ten rows of a transaction a prewrite each and a commit,
// for a run of the observer two prewrites and a commit at most.
func TestBenchChanges(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	r := measured(t, "changes", "--changes", "100", "--concurrency", "1,4")
	for _, name := range []string{"at 1", "at 4"} {
		row := r.Table("in all, a change").Row(name)
		if n := row.Value("conditional mutations"); n < 3 || n > 5 {
			t.Errorf("%s: %v conditional mutations", name, n)
		}
		if read, unread := row.Value("rows that the collector read"), row.Value("and erased in without reading"); read < 1 || read+unread < 2 {
			t.Errorf("%s: the collector read %v rows, and erased in %v others", name, read, unread)
		}
		for _, table := range []string{"requests a change", "rows a change"} {
			if len(r.Table(table).Rows) < 10 {
				t.Errorf("%+v", r.Table(table))
			}
		}
	}
	refuses(t, "changes", []string{"--concurrency", ""}, []string{"x"})
}
