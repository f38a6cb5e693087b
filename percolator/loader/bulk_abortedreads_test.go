package loader_test

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
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
	"export": {"t", percolator.ErrSnapshotTooOld, func(ctx context.Context, c *percolator.Client) (int, error) {
		s, err := c.Snapshot(ctx)
		if err != nil {
			return 0, err
		}
		return counted(admin.New(c).ExportRows(ctx, s.StartTimestamp(), "t", percolator.All()))
	}},
	"verification of an index": {"t", percolator.ErrSnapshotTooOld, func(ctx context.Context, c *percolator.Client) (int, error) {
		r, err := admin.New(c).VerifyIndex(ctx, "t", "name", admin.VerifyIndexOptions{})
		return int(r.Cells + r.Entries), err
	}},
	"deletion of a range": {"t", nil, func(ctx context.Context, c *percolator.Client) (int, error) { // it begins again
		p, err := admin.New(c).DeleteRange(ctx, "t", percolator.All(), admin.DeleteOptions{})
		return int(p.Deleted), err
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
	reading := e.NewClient()
	type result struct {
		n   int
		err error
	}
	got := make(chan result, 1)
	e.abortBeside(reading, of.table, func() {
		n, err := of.read(e.ctx, reading)
		got <- result{n, err}
	})
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

// abortBeside aborts an import into t while a client reads: the answer to its first read of table
// is from before the erasure, and comes when the client knows that the import was aborted.
func (e *env) abortBeside(reading *percolator.Client, table string, read func()) {
	e.Helper()
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
		e.Fatalf("%v", err)
	}
	aborting, erasure, answer := e.NewClient(), percolatortest.NewHold(), percolatortest.NewHold()
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
	go read()
	answer.Wait(e, 1)
	erasure.Release()
	fixture.Must(e, <-aborted)
	time.Sleep(15 * time.Second) // the client reads the meta row meanwhile
	answer.Release()
}

// A run whose read an abort has outdated says nothing against its observer, which is not parked: a
// later one reads what is there then.
func TestAbortedImportParksNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		schema := &percolator.Schema{Tables: []percolator.Table{{Name: "t"}, {Name: "o", Observed: []string{"c"}}}}
		e := &env{t, percolatortest.New(t, schema), context.Background()}
		working, registry := e.NewClient(), observers.NewRegistry()
		registry.Observe("counts", "o", "c", func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
			n, err := found(tx.Get(ctx, fixture.Cell(name("r", 1), "kind")))
			if err != nil {
				return err
			}
			return tx.Set(percolator.Cell{Table: "o", Row: ch.Cell.Row, Column: "seen"}, []byte(strconv.Itoa(n)))
		})
		w, err := observers.NewWorker(working, registry, observers.Config{MaxAttempts: 1, DisableCollection: true, SweepInterval: -1, ReportInterval: -1})
		fixture.Must(t, err)
		ctx, stop := context.WithCancel(e.ctx)
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		at := percolator.Cell{Table: "o", Row: "r", Column: "c"}
		e.abortBeside(working, "t", func() {
			fixture.Must(t, fixture.Update(e.ctx, working, func(tx *percolator.Txn) error { return tx.Set(at, []byte("v")) }))
		})
		fixture.Must(t, w.WaitIdle(e.ctx))
		if st := w.Stats(); st.Runs != 1 || st.Errors != 1 || st.Parked != 0 {
			t.Errorf("%+v", st)
		}
		at.Column = "seen"
		fixture.WantNow(t, e.ctx, working, at, "0")
		stop()
		fixture.Must(t, <-done)
	})
}
