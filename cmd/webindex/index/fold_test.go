package index_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/cmd/webindex/webtest"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A fold reads where the links of many pages lead with few requests: one for each page would take
// it longer than an observer may run.
func TestFoldReadsRedirectsTogether(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	percolatortest.Bubble(t, testFoldReadsRedirectsTogether)
}

func testFoldReadsRedirectsTogether(t *testing.T) {
	const links = 40
	pages := fixture.Of(700, 300)
	w := webtest.New(t, 0)
	name := func(i int) string { return fmt.Sprintf("http://p.test/%d", i) }
	all := index.Contributions{}
	w.Update(func(_ context.Context, tx *percolator.Txn) error { // as process and reroute leave them
		for i := range pages {
			var to []page.Link
			for l := range links {
				to = append(to, page.Link{Target: fmt.Sprintf("http://t.test/%d/%d", i, l)})
			}
			all[name(i)] = index.Contribution{Links: true}
			if err := index.Hash.Set(tx, name(i), fmt.Sprint(i)); err != nil {
				return err
			}
			if err := index.OutLinks.Set(tx, name(i), to); err != nil {
				return err
			}
		}
		return index.Passing.Add(tx, index.Ranks, all)
	})
	var columns []observers.Column
	for _, c := range index.Passing.Table().Weak {
		columns = append(columns, observers.Column{Table: index.Passing.Table().Name, Name: c})
	}
	client := w.Env.NewClient()
	worker, err := observers.NewWorker(client, index.Registry(time.Millisecond), observers.Config{DisableCollection: true, Columns: columns})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	defer func() { stop(); <-ended }()
	if err := worker.WaitIdle(w.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range pages {
		if accountOf(w, name(i)).Rank == 0 {
			t.Fatalf("%s has no rank", name(i))
		}
	}
	if n := client.Stats().Latency["get_multi"].Count; n > int64(pages/10) {
		t.Errorf("%d reads by key for %d pages with %d links each", n, pages, links)
	}
}
