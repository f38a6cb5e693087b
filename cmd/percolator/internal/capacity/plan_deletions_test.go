package capacity_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"

	"github.com/gopercolator/percolator/cmd/percolator/internal/capacity"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Transactions, runs and a cycle of collection send as many deletions as the model says, and every
// row of the journal is deleted once.
func TestDeletionsAgainstEmulator(t *testing.T) {
	t.Parallel()
	const rows, times = 40, 3 // each is written so often before the cycle
	for _, c := range []struct {
		name             string
		together         int // rows in a transaction
		columns          int
		observed         bool
		disabledJournals bool
	}{
		{"one row", 1, 1, false, false},
		{"ten rows", 10, 1, false, false},
		{"two columns", 1, 2, false, false},
		{"an observer", 1, 1, true, false},
		{"without a journal", 1, 1, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				env := fixture.NewCollectorEnv(t, func(s *percolator.Schema) { s.DisableJournal = c.disabledJournals })
				ctx := fixture.Context(t)
				for range times {
					for first := 0; first < rows; first += c.together {
						_, err := env.Client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
							return writeColumns(tx, first, c.together, c.columns, c.observed)
						})
						fixture.Must(t, err)
						fixture.Must(t, env.Client.Flush(ctx))
						if c.observed {
							fixture.Acknowledge(t, ctx, env.Client, fixture.Cell(rowNamed(first), "seen"), "o")
						}
					}
				}
				fixture.Must(t, env.Client.Flush(ctx))
				env.Clock.Advance(fixture.PastRetention)
				fixture.Collect(t, ctx, env.Client)

				w := capacity.DefaultWorkload()
				w.Rows, w.Changes, w.RowsPerTransaction, w.Columns, w.DisableJournal = rows, rows*times, float64(c.together), float64(c.columns), c.disabledJournals
				if c.observed {
					w.Observers = 1
				}
				faults := env.FaultsOf(env.Client)
				cells, _ := deleted(faults.Requests())
				marks, journalRows := deleted(faults.JournalRequests())
				want := w.Deletions(rows)
				near(t, "rows of the journal", journalRows, want.JournalRows)
				near(t, "cells, and ranges of them", cells+marks, want.Cells)
				near(t, "rows of the journal that are appended", want.JournalRows, w.Requests().JournalRows)
			})
		})
	}
}

func rowNamed(i int) string { return fmt.Sprintf("row%d", i) }

func writeColumns(tx *percolator.Txn, first, rows, columns int, observed bool) (err error) {
	for i := range rows {
		for j := range columns {
			column := fmt.Sprintf("c%d", j)
			if observed {
				column = "seen"
			}
			err = errors.Join(err, tx.Set(fixture.Cell(rowNamed(first+i), column), []byte("v")))
		}
	}
	return err
}

// deleted counts what requests delete: versions of a cell, one or a range of them, and whole rows.
// percolator_meta is left out: it has one row for all.
func deleted(requests []percolatortest.Request) (cells, rows float64) {
	for _, r := range requests {
		if r.Table == "percolator_meta" {
			continue
		}
		for _, m := range mutationsOf(r) {
			switch {
			case m.GetDeleteFromColumn() != nil:
				cells++
			case m.GetDeleteFromRow() != nil:
				rows++
			}
		}
	}
	return cells, rows
}

func mutationsOf(r percolatortest.Request) (list []*btpb.Mutation) {
	switch m := r.Message.(type) {
	case *btpb.MutateRowRequest:
		return m.Mutations
	case *btpb.CheckAndMutateRowRequest:
		return append(list, append(m.TrueMutations, m.FalseMutations...)...)
	case *btpb.MutateRowsRequest:
		for _, e := range m.Entries {
			list = append(list, e.Mutations...)
		}
	}
	return list
}
