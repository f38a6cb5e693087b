package summary_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gopercolator/percolator/cmd/webindex/load"
	"github.com/gopercolator/percolator/cmd/webindex/summary"
	"github.com/gopercolator/percolator/percolator"
)

func TestLatencyByNearestRank(t *testing.T) {
	t.Parallel()
	list := func(n int) (d []time.Duration) {
		for i := range n {
			d = append(d, time.Duration(i+1)*time.Millisecond)
		}
		return d
	}
	for n, want := range map[int]summary.Latency{
		0:   {},
		1:   {P50: 1, P95: 1, Pages: 1},
		2:   {P50: 1, P95: 2, Pages: 2},
		20:  {P50: 10, P95: 19, Pages: 20},
		100: {P50: 50, P95: 95, Pages: 100},
	} {
		if got := summary.NewLatency(list(n)); got != want {
			t.Errorf("%d pages: %+v, want %+v", n, got, want)
		}
	}
}

func example() *summary.Summary {
	s := &summary.Summary{
		Input:    "crawl.warc.gz",
		Loaded:   summary.Loaded{Pages: 4, Counts: load.Counts{Changed: 3, Unchanged: 1, Skipped: 2}},
		Stored:   &summary.Stored{Documents: 3, Clusters: 2, Canonical: 2, Links: 9, Redirects: 1},
		Worked:   summary.Worked{ObserverRuns: 7, Observers: map[string]int64{"process": 4, "export": 3}},
		Seconds:  2,
		Latency:  summary.Latency{P50: 12.5, P95: 99, Pages: 2},
		Verified: &summary.Verified{Differences: 0, VerifySeconds: 0.25},
	}
	s.SetStats(
		percolator.Stats{Transactions: 1, Requests: map[string]int64{"ReadRows": 5, "Oracle": 2}},
		percolator.Stats{Transactions: 11, Conflicts: 3, Notifications: 6, Requests: map[string]int64{"ReadRows": 15, "Oracle": 2, "MutateRows": 30}},
	)
	return s
}

func TestJSONIsOneLineWithAllKeys(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := example().WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Count(b.String(), "\n") != 1 {
		t.Errorf("not one line: %q", b.String())
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"input": "crawl.warc.gz",
		"pages": 4., "changed": 3., "unchanged": 1., "earlier": 0., "superseded": 0., "skipped": 2., "badInputs": 0.,
		"documents": 3., "clusters": 2., "canonical": 2., "links": 9., "redirects": 1.,
		"observerRuns": 7., "observers": map[string]any{"process": 4., "export": 3.}, "parked": 0.,
		"transactions": 10., "conflicts": 3., "notifications": 6.,
		"requests": map[string]any{
			"byKind": map[string]any{"ReadRows": 10., "Oracle": 0., "MutateRows": 30.}, "total": 40., "perPage": 10.,
		},
		"seconds":       2.,
		"latencyMillis": map[string]any{"p50": 12.5, "p95": 99., "pages": 2.},
		"differences":   0., "verifySeconds": 0.25,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTextHasEveryFigure(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := example().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	const want = `input               crawl.warc.gz
pages               4 (3 changed, 1 unchanged)
left out            0 superseded, 2 skipped, 0 bad
documents           3 in 2 clusters, 2 canonical
links               9, and 1 redirects
observer runs       7 (process 4, export 3)
transactions        10, 3 conflicts (5/s)
notifications       6
requests            40 (MutateRows 30, ReadRows 10)
requests per page   10.0
seconds             2.00
load to searchable  p50 12 ms, p95 99 ms (2 pages)
differences         0 (verified in 0.25 s)
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
