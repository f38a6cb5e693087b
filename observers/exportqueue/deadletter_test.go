package exportqueue_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A worker whose queue has a table of dead letters that the schema lacks does not start, like one
// that observes a column that the schema lacks. It would run until the first rejection, which then
// holds its partition up.
func TestWorkerRefusesAMissingTableOfDeadLetters(t *testing.T) {
	t.Parallel()
	q, err := exportqueue.New(exportqueue.Config{Table: "exports", Name: "export", Partitions: 1, DeadLetters: "dead_letters"})
	if err != nil {
		t.Fatal(err)
	}
	client := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{q.Table()}}).Client
	r := observers.NewRegistry()
	q.Observe(r, client, func(context.Context, []exportqueue.Entry) error { return nil })
	if _, err := observers.NewWorker(client, r, observers.Config{}); !errors.Is(err, percolator.ErrSchemaMismatch) {
		t.Errorf("NewWorker: %v, want a schema mismatch of dead_letters", err)
	}
}
