package console

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/combinequeue"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A queue is one line of each list, with its sum, which opens. In an outage pages look stale, and
// say since when.
func TestQueuesAndOutagesInABrowser(t *testing.T) {
	mails, err := exportqueue.New(exportqueue.Config{Table: "mails", Name: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	totals, err := combinequeue.New(combinequeue.Config[int64]{Values: percolator.Int64("totals", "total"), Combine: func(a, b int64) int64 { return a + b }})
	if err != nil {
		t.Fatal(err)
	}
	c := newClusterOf(t, 1, &percolator.Schema{Tables: slices.Concat(testSchema.Tables, []percolator.Table{mails.Table(), totals.Table()})}, nil)
	r := observers.NewRegistry()
	nothing := func(context.Context, *percolator.Txn, observers.Change) error { return nil }
	r.Observe("index", "documents", "contents", nothing)
	r.Observe("recount", "documents", "recount", nothing)
	mails.Observe(r, c.client, deliver)
	totals.Observe(r, func(context.Context, *percolator.Txn, string, int64) error { return nil })
	w, err := observers.NewWorker(c.client, r, observers.Config{Partition: true, ReportInterval: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })

	viewer := c.env.NewClient(c.ownOracle())
	h, err := NewHandler(viewer, Config{Title: "demo/search", OracleAddresses: c.addresses, PollInterval: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	b := openBrowser(t, h, 400)
	b.open("/observers")
	const heads = `[...document.querySelectorAll("#content table.list tbody th")].map((th) => th.querySelector("summary")?.textContent ?? th.firstChild.textContent)`
	for _, name := range []string{"export-000…00f (16)", "fold-000…00f (16)", "mail-000…00f (16)", "total-000…00f (16)"} {
		b.await(heads + `.includes("` + name + `")`)
	}
	if n := evaluate[int](b, heads+".length"); n != 8 {
		t.Errorf("%d lines, want 4 columns and 4 observers", n)
	}
	if height := evaluate[int](b, "document.body.scrollHeight"); height > 4500 {
		t.Errorf("the page is %d px high", height)
	}
	if n := evaluate[int](b, `document.querySelector("details.queue").open = true, document.querySelectorAll("details.queue[open] li").length`); n != 16 {
		t.Errorf("a queue opens to %d parts", n)
	}
	b.open("/workers")
	b.await(`document.querySelector("[data-label=Observers]").textContent === "index, mail-000…00f (16), recount, total-000…00f (16)"`)
	b.open("/observers")
	pictures := func(when string) {
		if dir := os.Getenv("PERCOLATOR_SCREENSHOTS"); dir != "" {
			for name, width := range map[string]int64{"-1280": 1280, "-400": 400} {
				for _, page := range []string{"observers", "workers", "overview"} {
					b.draw(dir, "queues-"+page+name+when, "/"+strings.TrimPrefix(page, "overview"), width)
				}
			}
		}
	}
	pictures("")
	lost := func(percolatortest.Request) percolatortest.Action { return percolatortest.LoseRequest }
	c.env.FaultsOf(viewer).Handle(lost)
	c.env.FaultsOf(viewer).HandleJournal(lost)
	b.await(`document.getElementById("live").textContent.startsWith("stale since ") && document.querySelector("#content .stale .failed")`)
	pictures("-stale")
	c.env.FaultsOf(viewer).Handle(nil)
	c.env.FaultsOf(viewer).HandleJournal(nil)
	b.await(`document.getElementById("live").textContent === "live" && !document.querySelector("#content .stale")`)
}
