package observers_test

import (
	"context"
	"testing"

	"github.com/gopercolator/percolator/observers"
)

func TestRunEndsBeforeItBegins(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, table()), observers.NewRegistry()
	r.Observe("o", "t", "in", newJournal().observer("o"))
	w, err := observers.NewWorker(e.client, r, observers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
}
