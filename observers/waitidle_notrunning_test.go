package observers_test

import (
	"testing"

	"github.com/gopercolator/percolator/observers"
)

func TestWaitIdleOfAWorkerThatDoesNotRun(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	observer, err := observers.NewWorker(e.client, r, observers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	e.idle(observer) // nothing to do
	e.set(e.client, "r", "in", "1")
	waited := make(chan error, 1)
	go func() { waited <- observer.WaitIdle(e.ctx) }()
	e.reads(e.client, 3)
	select {
	case err := <-waited:
		t.Fatalf("WaitIdle returned %v with a notification left", err)
	default:
	}
	e.start(e.NewClient(), r, observers.Config{})
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	if j.count("o") != 1 {
		t.Fatalf("%d calls", j.count("o"))
	}
}
