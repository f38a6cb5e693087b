package loader_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// abortedReads read what an import has written, and return how much they have seen of it.
var abortedReads = map[string]struct {
	table string // whose answer is slow
	want  error
	read  func(context.Context, *percolator.Client) (int, error)
}{
	"scan": {"t", percolator.ErrSnapshotTooOld, atSnapshot(func(ctx context.Context, s *percolator.Snapshot) (int, error) {
		return counted(s.Scan(ctx, "t", percolator.All()))
	})},
	"scan of an index": {"t.name", percolator.ErrSnapshotTooOld, atSnapshot(func(ctx context.Context, s *percolator.Snapshot) (int, error) {
		return counted(s.ScanIndex(ctx, "t", "name", percolator.All()))
	})},
	"get": {"t", percolator.ErrSnapshotTooOld, atSnapshot(func(ctx context.Context, s *percolator.Snapshot) (int, error) {
		return found(s.Get(ctx, fixture.Cell(name("r", 1), "kind")))
	})},
	"transaction": {"t", percolator.ErrSnapshotTooOld, func(ctx context.Context, c *percolator.Client) (n int, err error) {
		_, err = c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) (err error) {
			if n, err = found(tx.Get(ctx, fixture.Cell(name("r", 1), "kind"))); err != nil || n == 0 {
				return err
			}
			return tx.Set(fixture.Cell("copy", "kind"), []byte("1"))
		})
		return n, err
	}},
	"backfill of an observer": {"t", percolator.ErrConflict, func(ctx context.Context, c *percolator.Client) (int, error) {
		p, err := admin.New(c).BackfillObserver(ctx, "t", "c", "o", admin.ObserverOptions{})
		return int(p.Changed), err
	}},
}

func atSnapshot(read func(context.Context, *percolator.Snapshot) (int, error)) func(context.Context, *percolator.Client) (int, error) {
	return func(ctx context.Context, c *percolator.Client) (int, error) {
		s, err := c.Snapshot(ctx)
		if err != nil {
			return 0, err
		}
		return read(ctx, s)
	}
}

func counted[T any](entries iter.Seq2[T, error]) (n int, err error) {
	for _, err := range entries {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func found(value []byte, err error) (int, error) {
	if errors.Is(err, percolator.ErrNotFound) {
		return 0, nil
	}
	return len(value), err
}

// An answer that was read while an import was being aborted, and comes when nothing says so any
// more, is refused (I28).
func TestReadsOfAnAbortedImport(t *testing.T) {
	for name := range abortedReads {
		t.Run(name, func(t *testing.T) { inBubble(t, func(t *testing.T) { testReadOfAnAbortedImport(t, name) }) })
	}
}

func testReadOfAnAbortedImport(t *testing.T, name string) {
	e, of := bulkEnv(t), abortedReads[name]
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
	aborting, reading := e.NewClient(), e.NewClient()
	erasure, answer := percolatortest.NewHold(), percolatortest.NewHold()
	e.FaultsOf(aborting).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows && r.Table == of.table {
			return erasure
		}
		return percolatortest.Pass
	})
	e.FaultsOf(reading).Handle(fixture.AtMost(1, func(r percolatortest.Request) bool { return r.Method == percolatortest.ReadRows && r.Table == of.table }, answer.Answer()))
	aborted := make(chan error, 1)
	go func() {
		_, err := loader.AbortImport(e.ctx, aborting, "t", nil, nil)
		aborted <- err
	}()
	time.Sleep(2 * time.Minute) // the drain
	erasure.Wait(e, 1)
	type result struct {
		n   int
		err error
	}
	got := make(chan result, 1)
	go func() {
		n, err := of.read(e.ctx, reading)
		got <- result{n, err}
	}()
	answer.Wait(e, 1)
	erasure.Release()
	fixture.Must(t, <-aborted)
	time.Sleep(15 * time.Second) // the client reads the meta row meanwhile
	answer.Release()
	if r := <-got; r.n > 0 || !errors.Is(r.err, of.want) {
		t.Errorf("%d values of the import, %v", r.n, r.err)
	}
	if n, err := of.read(e.ctx, reading); n > 0 || err != nil {
		t.Errorf("later: %d values, %v", n, err)
	}
	if n := e.wipe("t", "t.name", "t.kind"); n > 0 {
		t.Errorf("%d rows are left", n)
	}
}
