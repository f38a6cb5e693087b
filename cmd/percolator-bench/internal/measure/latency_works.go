package measure

import (
	"context"
	"fmt"

	"github.com/gopercolator/percolator/percolator"
)

// latencyWork is one kind of transaction.
type latencyWork struct {
	name        string
	goal        float64 // of the multiple; 0: none was set
	peer        string  // the multiple of TiKV's client, measured the same way
	storageGoal int     // of storage requests
	storagePeer string
	blind       bool
	rows        int // that one transaction writes

	prepare func(ctx context.Context, row string) error // before the clock is started; nil: nothing
	run     func(ctx context.Context, row string) error

	transactions int // that were run

	requests         map[string][]float64 // of each transaction that was counted, by kind, phase two included
	means, multiples []float64            // of each repetition: milliseconds, raw requests
	atHand           int                  // transactions that waited for one timestamp only
	ahead            int64                // timestamps that were fetched in the background
}

// works are the kinds of transactions. Each transaction writes rows of its own, whose names begin with its row; what they hold is
// their name, so that everything can be verified in the end.
func (f *latencyField) works() []*latencyWork {
	var works []*latencyWork
	add := func(w latencyWork) { works = append(works, &w) }
	add(latencyWork{name: "begin, get", run: func(ctx context.Context, _ string) error {
		tx, err := f.client.Begin(ctx)
		if err != nil {
			return err
		}
		return f.get(ctx, tx, knownRow)
	}})
	add(latencyWork{name: "begin, set, commit", goal: 4.2, peer: "4.24", rows: 1, run: f.writing(1)})
	add(latencyWork{name: "begin, set, commit: blind", goal: 3.2, blind: true, rows: 1, run: f.writing(1, percolator.Blind())})
	add(latencyWork{name: "begin, get, set 2 rows, commit", goal: 5.2, peer: "5.33", rows: 2, run: func(ctx context.Context, row string) error {
		tx, err := f.client.Begin(ctx)
		if err != nil {
			return err
		}
		if err := f.get(ctx, tx, knownRow); err != nil {
			return err
		}
		return setAndCommit(ctx, tx, row, 2)
	}})
	add(latencyWork{name: "begin, set 10 rows, commit", goal: 4.3, peer: "4.31", storageGoal: 12, storagePeer: "20", rows: 10, run: f.writing(10)})
	add(latencyWork{name: "begin, set 10 rows, commit: blind", goal: 3.3, storageGoal: 12, blind: true, rows: 10,
		run: f.writing(10, percolator.Blind())})
	add(latencyWork{name: "begin, get past a lock whose primary is committed", storageGoal: 3, rows: 2,
		prepare: func(ctx context.Context, row string) error {
			tx, err := f.dying.Begin(ctx)
			if err != nil {
				return err
			}
			return setAndCommit(ctx, tx, row, 2)
		},
		run: func(ctx context.Context, row string) error {
			tx, err := f.client.Begin(ctx)
			if err != nil {
				return err
			}
			return f.get(ctx, tx, rowOf(row, 1)) // not the primary
		}})
	return works
}

// writing sets a number of rows and commits.
func (f *latencyField) writing(rows int, opts ...percolator.TxnOption) func(context.Context, string) error {
	return func(ctx context.Context, row string) error {
		tx, err := f.client.Begin(ctx, opts...)
		if err != nil {
			return err
		}
		return setAndCommit(ctx, tx, row, rows)
	}
}

func setAndCommit(ctx context.Context, tx *percolator.Txn, row string, rows int) error {
	for i := range rows {
		if err := tx.Set(benchCell(rowOf(row, i), bodyColumn), []byte(rowOf(row, i))); err != nil {
			return err
		}
	}
	_, err := tx.Commit(ctx)
	return err
}

func rowOf(row string, i int) string { return fmt.Sprintf("%s-%d", row, i) }

// get reads a row and compares.
func (f *latencyField) get(ctx context.Context, tx *percolator.Txn, row string) error {
	v, err := tx.Get(ctx, benchCell(row, bodyColumn))
	if err == nil && string(v) != row {
		err = fmt.Errorf("row %s holds %q", row, v)
	}
	return err
}
