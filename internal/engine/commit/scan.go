package commit

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator/model"
)

// Scan merges the transaction's own writes into a scan of the snapshot.
func (tx *Txn) Scan(ctx context.Context, table string, r model.Range, columns ...string) iter.Seq2[model.Entry, error] {
	return tx.ScanWith(ctx, table, model.ScanOptions{Rows: []model.Range{r}, Columns: columns})
}

// ScanWith merges the transaction's own writes into a scan of the snapshot.
func (tx *Txn) ScanWith(ctx context.Context, table string, o model.ScanOptions) iter.Seq2[model.Entry, error] {
	if o.Index != "" {
		return tx.ScanIndex(ctx, table, o)
	}
	own, err := tx.ownIn(table, o)
	if err = errors.Join(err, retry.CheckContext(ctx), tx.mayRead(model.Cell{Table: table})); err != nil {
		return reads.Failed[model.Entry](err)
	}
	return tx.locking(reads.Entries(mergeOwn(tx.snap.ScanRows(ctx, table, o), own, o.Reverse), o.Limit))
}

// ownIn lists the transaction's own puts and deletes that the options select.
func (tx *Txn) ownIn(table string, o model.ScanOptions) ([]Write, error) {
	rows, columns := reads.SelectedRows(o), reads.SelectedColumns(o)
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.done {
		return nil, errTxnDone()
	}
	var own []Write
	for _, w := range tx.order {
		if w.Kind.Changes() && w.Cell.Table == table && rows.Contain(w.Cell.Row) && columns.Contain(w.Cell.Column) {
			own = append(own, *w)
		}
	}
	return own, nil
}

// mergeOwn lays a transaction's own writes over a stream of rows of one table, in key order or
// against it. It sorts the writes.
func mergeOwn(stream reads.Rows, own []Write, reverse bool) reads.Rows {
	if len(own) == 0 {
		return stream
	}
	order := strings.Compare
	if reverse {
		order = func(a, b string) int { return strings.Compare(b, a) }
	}
	slices.SortFunc(own, func(a, b Write) int {
		if c := order(a.Cell.Row, b.Cell.Row); c != 0 {
			return c
		}
		return strings.Compare(a.Cell.Column, b.Cell.Column)
	})
	return func(yield func([]model.Entry, error) bool) {
		rest := own
		// first takes the writes of the first row that is left.
		first := func() (writes []Write) {
			n := 1
			for n < len(rest) && rest[n].Cell.Row == rest[0].Cell.Row {
				n++
			}
			writes, rest = rest[:n], rest[n:]
			return writes
		}
		give := func(row []model.Entry) (more bool) { return len(row) == 0 || yield(row, nil) }
		for row, err := range stream {
			if err != nil {
				yield(nil, err)
				return
			}
			for len(rest) > 0 && order(rest[0].Cell.Row, row[0].Cell.Row) < 0 {
				if !give(overlay(nil, first())) {
					return
				}
			}
			if len(rest) > 0 && rest[0].Cell.Row == row[0].Cell.Row {
				row = overlay(row, first())
			}
			if !give(row) {
				return
			}
		}
		for len(rest) > 0 {
			if !give(overlay(nil, first())) {
				return
			}
		}
	}
}

// overlay is the entries of a row after a transaction's own writes to it, both in the order of
// columns.
func overlay(row []model.Entry, own []Write) (out []model.Entry) {
	for _, w := range own {
		for len(row) > 0 && row[0].Cell.Column < w.Cell.Column {
			out, row = append(out, row[0]), row[1:]
		}
		if len(row) > 0 && row[0].Cell.Column == w.Cell.Column {
			row = row[1:] // replaced, or deleted
		}
		if w.Kind == layout.KindPut {
			out = append(out, model.Entry{Cell: w.Cell, Value: slices.Clone(w.Value)})
		}
	}
	return append(out, row...)
}
