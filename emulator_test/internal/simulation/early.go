package simulation

import (
	"context"
	"errors"
	"sync"

	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/backup"
)

// early is a client of an instance before something is restored into it. Its transactions are about
// to commit while that is under way, or when it is over, and none of them may.
type early struct {
	w    *world
	p    *process
	ways sync.WaitGroup

	mu   sync.Mutex
	txns []*percolator.Txn
}

// earlyTxns is how many transactions there are of them.
const earlyTxns = 6

// beginEarly begins the transactions.
func (w *world) beginEarly(ctx context.Context, name string) (*early, error) {
	p, err := w.open(ctx, name+"-early")
	if err != nil {
		return nil, err
	}
	e := &early{w: w, p: p}
	for range earlyTxns {
		if err := e.begin(ctx); err != nil {
			return nil, errors.Join(err, p.leave())
		}
	}
	return e, nil
}

func (e *early) begin(ctx context.Context) error {
	tx, err := e.p.client.Begin(ctx)
	if err != nil {
		return err
	}
	for _, c := range workload.Stray(e.p.rand) {
		if err := tx.Set(c, []byte("early")); err != nil {
			return err
		}
	}
	e.txns = append(e.txns, tx)
	return nil
}

// commit has the next of the transactions commit, beside the caller.
func (e *early) commit(ctx context.Context) (more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.txns) == 0 {
		return false
	}
	tx := e.txns[0]
	e.txns = e.txns[1:]
	e.ways.Go(func() {
		if commit, err := tx.Commit(ctx); err == nil {
			e.w.problem("transaction %d, from before a restore, committed at %d", tx.StartTimestamp(), commit)
		}
	})
	return true
}

// during has a transaction commit now and then while a restore makes progress, but leaves some for
// afterwards.
func (e *early) during(ctx context.Context) func(backup.Progress) {
	n := 0
	return func(backup.Progress) {
		if n++; n <= earlyTxns/2 {
			e.commit(ctx)
		}
	}
}

// end has those commit that are left.
func (e *early) end(ctx context.Context) error {
	for e.commit(ctx) {
	}
	e.ways.Wait()
	return e.p.leave()
}
