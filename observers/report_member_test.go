package observers_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
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
		if live, err := admin.New(env.Client).Workers(t.Context()); err != nil || len(live.Live) > 0 {
			break
		}
	}
	stop()
	<-ended
}
