package loader_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/loader"
)

// Who has imported what was wrong imports again on the way, and after the time, that the error
// names: whether observers have run for the rows or only for their deletion.
func TestBulkAgain(t *testing.T) {
	t.Parallel()
	for name, observed := range map[string]bool{"observers have run": true, "observers run for the deletion": false} {
		t.Run(name, func(t *testing.T) { inBubble(t, func(t *testing.T) { testBulkAgain(t, observed) }) })
	}
}

func testBulkAgain(t *testing.T, observed bool) {
	const n = 30
	e := bulkEnv(t)
	cfg := bulkConfig()
	_, err := loader.Bulk(e.ctx, e.Client, cfg, rows(n))
	fixture.Must(t, err)
	work := func() {
		registry := observers.NewRegistry()
		registry.Observe("o", "t", "c", func(context.Context, *percolator.Txn, observers.Change) error { return nil })
		w, err := observers.NewWorker(e.NewClient(), registry, observers.Config{DisableCollection: true})
		fixture.Must(t, err)
		ctx, stop := context.WithCancel(e.ctx)
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		fixture.Must(t, w.WaitIdle(e.ctx))
		stop()
		fixture.Must(t, <-ended)
	}
	if observed {
		work()
	}
	cfg.Source = "another"
	_, err = loader.Bulk(e.ctx, e.Client, cfg, rows(n))
	fixture.WantErr(t, err, admin.ErrNotEmpty)
	if !strings.Contains(err.Error(), "percolator del-range t --all") {
		t.Error(err)
	}
	_, err = admin.New(e.Client).DeleteRange(e.ctx, "t", percolator.All(), admin.DeleteOptions{})
	fixture.Must(t, err)
	work()
	time.Sleep(time.Hour + time.Minute) // the retention
	fixture.Collect(t, e.ctx, e.Client)
	_, err = loader.Bulk(e.ctx, e.Client, cfg, rows(n))
	fixture.Must(t, err)
	e.Audit(t)
}
