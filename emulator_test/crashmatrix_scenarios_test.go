package emulator_test

import (
	"context"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// scenario is what the transaction does and what it meets. Its cells are named P (the primary), S1
// and S2.
type scenario struct {
	name    string
	columns [3]string // of P, S1 and S2; "seen" is observed
	fresh   bool      // there are no old values
	blind   bool      // the transaction does not read what it writes
	deletes bool      // S2 is deleted
	pokes   bool      // the cell W is notified weakly
	updates bool      // it is run in Update too
	doomed  bool      // it meets a newer write and cannot commit
	before  func(x *crashRun)
	meddle  func(x *crashRun) error // after the transaction has read and before it commits
	actors  []nextActor
}

func scenarios() []*scenario {
	return []*scenario{
		{
			name: "commit", columns: [3]string{"seen", "plain", "seen"}, updates: true,
			actors: []nextActor{nextReader, nextScan, nextWriter, nextOlderWriter, nextWorker},
		},
		{
			name: "commit with a weak notification and a delete", columns: [3]string{"plain", "seen", "seen"}, deletes: true, pokes: true,
			actors: []nextActor{nextReader, nextWorker, nextOlderWriter},
		},
		{
			name: "conflict", columns: [3]string{"seen", "plain", "seen"}, doomed: true, actors: []nextActor{nextWorker},
			meddle: func(x *crashRun) error { return x.tryWrite("meddled", "S2") },
		},
		{
			name: "a reader of a committed secondary", columns: [3]string{"seen", "plain", "seen"}, actors: []nextActor{nextWorker},
			before: func(x *crashRun) { x.strand(true) },
		},
		{
			name: "a writer over a dead lock", columns: [3]string{"seen", "plain", "seen"}, blind: true, actors: []nextActor{nextReader},
			before: func(x *crashRun) { x.strand(false) },
		},
	}
}

// strand has another client die after or before the commit point of a transaction that writes a row
// X, its primary, and S1. If it was before, its locks are dead when strand returns.
func (x *crashRun) strand(committed bool) {
	x.Helper()
	c := x.env.NewClient()
	x.env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if committed && r.Method == percolatortest.MutateRows || !committed && fixture.IsCommit(r) {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	tx := fixture.MustBegin(x, x.ctx, c)
	fixture.Must(x, tx.Set(x.cell("X"), []byte("stranded")))
	fixture.Must(x, tx.Set(x.cell("S1"), []byte("stranded")))
	ts, err := tx.Commit(x.ctx)
	if committed != (err == nil) {
		x.Fatalf("the other transaction: %v", err)
	}
	fixture.Must(x, c.Flush(x.ctx))
	fixture.Must(x, c.Close())
	if committed {
		x.remember("S1", cellVersion{ts, "stranded"})
		x.remember("X", cellVersion{ts, "stranded"})
	} else {
		x.foreign[tx.StartTimestamp()] = true
		x.expire()
	}
}

// write has somebody else commit a value to the named cells.
func (x *crashRun) write(value string, names ...string) {
	x.Helper()
	if err := x.tryWrite(value, names...); err != nil {
		x.Fatalf("writing %q: %v", value, err)
	}
}

// tryWrite is write outside the test's goroutine. Where prewrites of the transaction may land
// behind a resolver, it waits out their TTL.
func (x *crashRun) tryWrite(value string, names ...string) error {
	attempts := 1
	if x.loose {
		attempts = 4
	}
	for {
		var start tso.Timestamp
		ts, err := x.other.Update(x.ctx, func(_ context.Context, tx *percolator.Txn) error {
			start = tx.StartTimestamp()
			for _, name := range names {
				if err := tx.Set(x.cell(name), []byte(value)); err != nil {
					return err
				}
			}
			return nil
		}, percolator.MaxAttempts(1))
		if err == nil {
			for _, name := range names {
				x.remember(name, cellVersion{ts, value})
			}
			return x.other.Flush(x.ctx)
		}
		x.foreign[start] = true // it has rolled itself back
		if attempts--; attempts == 0 {
			return err
		}
		x.expire()
	}
}
