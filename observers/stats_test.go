package observers_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A worker with a partition that reports: under -race, its report reads the worker's name while the
// membership registers it.
func TestReportOfAMember(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t", Observed: []string{"c"}}}})
	r := observers.NewRegistry()
	r.Observe("o", "t", "c", func(context.Context, *percolator.Txn, observers.Change) error { return nil })
	w, err := observers.NewWorker(env.Client, r, observers.Config{Partition: true, ReportInterval: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	for {
		if live, err := (membership.Directory{Engine: env.Client.Engine()}).Workers(t.Context()); err != nil || len(live.Live) > 0 {
			break
		}
	}
	stop()
	<-ended
}

// A worker reports while it runs, and removes its report when it ends.
func TestWorkersReport(t *testing.T) {
	t.Parallel()
	e := newEnv(t, percolator.Table{Name: "t", Observed: []string{"in"}})
	j := newJournal()
	r := observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	reports := func() []model.Report {
		list, err := admin.New(e.client).Reports(e.ctx)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	config := observers.Config{DisableCollection: true, ReportInterval: 10 * time.Millisecond}
	one, two := e.NewClient(), e.NewClient()
	_, stopOne := e.start(one, r, config)
	config.Partition = true
	_, stopTwo := e.start(two, r, config)
	e.set(one, "r", "in", "v")
	e.until("two reports, one of them of a run", func() bool {
		list := reports()
		return len(list) == 2 && list[0].Worker.Runs+list[1].Worker.Runs == 1
	})
	seen, err := membership.Directory{Engine: e.client.Engine()}.Workers(e.ctx)
	if err != nil || len(seen.Live) != 1 {
		t.Fatalf("%d workers in the list: %v", len(seen.Live), err)
	}
	if !slices.ContainsFunc(reports(), func(r model.Report) bool { return r.Name == seen.Live[0].Name }) {
		t.Error("the worker that is listed reports under another name")
	}
	stopOne()
	if list := reports(); len(list) != 1 || list[0].Name != seen.Live[0].Name {
		t.Errorf("%d reports are left", len(list))
	}
	stopTwo()
	if list := reports(); len(list) != 0 {
		t.Errorf("%d reports are left", len(list))
	}
}

func TestReportIntervalIsBounded(t *testing.T) {
	t.Parallel()
	e := newEnv(t, percolator.Table{Name: "t"})
	_, err := observers.NewWorker(e.client, observers.NewRegistry(), observers.Config{ReportInterval: time.Hour})
	if !errors.Is(err, percolator.ErrInvalidArgument) {
		t.Errorf("NewWorker: %v", err)
	}
}
