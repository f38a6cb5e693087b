package loader_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// An answer that was read while an import was being aborted, and comes when nothing says so any
// more, is refused (I28).
func TestReadsOfAnAbortedImport(t *testing.T) {
	for name, read := range map[string]func(context.Context, *percolator.Snapshot) (int, error){
		"scan": func(ctx context.Context, s *percolator.Snapshot) (n int, err error) {
			for _, err := range s.Scan(ctx, "t", percolator.All()) {
				if err != nil {
					return n, err
				}
				n++
			}
			return n, nil
		},
		"get": func(ctx context.Context, s *percolator.Snapshot) (int, error) {
			v, err := s.Get(ctx, fixture.Cell(name("r", 1), "kind"))
			if errors.Is(err, percolator.ErrNotFound) {
				return 0, nil
			}
			return len(v), err
		},
		"index": func(ctx context.Context, s *percolator.Snapshot) (n int, err error) {
			for _, err := range s.ScanIndex(ctx, "t", "name", percolator.All()) {
				if err != nil {
					return n, err
				}
				n++
			}
			return n, nil
		},
	} {
		t.Run(name, func(t *testing.T) { inBubble(t, func(t *testing.T) { testReadOfAnAbortedImport(t, name, read) }) })
	}
}

func testReadOfAnAbortedImport(t *testing.T, kind string, read func(context.Context, *percolator.Snapshot) (int, error)) {
	e := bulkEnv(t)
	broken := errors.New("breaks off")
	source := func(ctx context.Context, from loader.Position) iter.Seq2[loader.Item[loader.Row], error] {
		return func(yield func(loader.Item[loader.Row], error) bool) {
			for item, err := range rows(1500)(ctx, from) {
				if !yield(item, err) {
					return
				}
			}
			yield(loader.Item[loader.Row]{}, broken)
		}
	}
	if _, err := loader.Bulk(e.ctx, e.NewClient(), bulkConfig(), source); !errors.Is(err, broken) {
		t.Fatalf("%v", err)
	}
	table := "t"
	if kind == "index" {
		table = "t.name"
	}
	aborting, reading := e.NewClient(), e.NewClient()
	erasure, answer := percolatortest.NewHold(), percolatortest.NewHold()
	e.FaultsOf(aborting).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows && r.Table == table {
			return erasure
		}
		return percolatortest.Pass
	})
	e.FaultsOf(reading).Handle(fixture.AtMost(1, func(r percolatortest.Request) bool { return r.Method == percolatortest.ReadRows && r.Table == table }, answer.Answer()))
	aborted := make(chan error, 1)
	go func() {
		_, err := loader.AbortImport(e.ctx, aborting, "t", nil, nil)
		aborted <- err
	}()
	time.Sleep(2 * time.Minute) // the drain
	erasure.Wait(e, 1)
	s, err := reading.Snapshot(e.ctx)
	fixture.Must(t, err)
	type result struct {
		n   int
		err error
	}
	got := make(chan result, 1)
	go func() {
		n, err := read(e.ctx, s)
		got <- result{n, err}
	}()
	answer.Wait(e, 1)
	erasure.Release()
	fixture.Must(t, <-aborted)
	time.Sleep(15 * time.Second) // the client reads the meta row meanwhile
	answer.Release()
	if r := <-got; r.n > 0 || !errors.Is(r.err, percolator.ErrSnapshotTooOld) {
		t.Errorf("%d values of the import, %v", r.n, r.err)
	}
	later, err := reading.Snapshot(e.ctx)
	fixture.Must(t, err)
	if n, err := read(e.ctx, later); n > 0 || err != nil {
		t.Errorf("later: %d values, %v", n, err)
	}
}
