package exportqueue

import (
	"fmt"
	"sort"

	"github.com/gopercolator/percolator/observers/internal/sliced"
	"github.com/gopercolator/percolator/percolator"
)

// maxPerTxn is how many entries one transaction can add to a partition.
const maxPerTxn = percolator.MaxColumnsPerRow

// Add adds an entry that is delivered if tx commits. It reads nothing and conflicts with nothing.
// It copies value. All entries of one transaction for one key are delivered, in the order of Add.
//
// Errors: percolator.ErrInvalidArgument for a blind transaction, whose start timestamp says nothing
// about the order; percolator.ErrTooLarge for a key longer than MaxKeyBytes, a value larger than
// MaxValueBytes or more than 30,000 entries of a transaction in one partition; those of
// percolator.Txn.Set. After an error the entry is not in tx.
func (q *Queue) Add(tx *percolator.Txn, key string, value []byte) error {
	switch {
	case tx.IsBlind():
		return invalid("the transaction is blind, and its start timestamp may be older than a transaction that committed before it began")
	case len(key) > MaxKeyBytes || len(value) > MaxValueBytes:
		return tooLarge("a key of %d or a value of %d bytes, the limits are %d and %d", len(key), len(value), MaxKeyBytes, MaxValueBytes)
	}
	start, partition := tx.StartTimestamp(), sliced.Of(key, q.cfg.Partitions)
	slice := sliced.Row(partition, start)
	cell := percolator.Cell{Table: q.cfg.Table, Row: entryRow(slice, start)}

	q.adding[partition].Lock()
	defer q.adding[partition].Unlock()
	var err error
	seq := sort.Search(maxPerTxn, func(i int) bool { // the first that is free
		cell.Column = entryColumn(start, i)
		_, written, berr := tx.Buffered(cell)
		if berr != nil {
			err = berr
		}
		return !written
	})
	if err != nil {
		return err
	}
	if seq == maxPerTxn {
		return tooLarge("the transaction has %d entries in the partition already", maxPerTxn)
	}
	if err := tx.Notify(percolator.Cell{Table: q.cfg.Table, Row: slice, Column: exportColumn(partition)}); err != nil {
		return sliced.Undeclared(err)
	}
	cell.Column = entryColumn(start, seq)
	return tx.Set(cell, encodeValue(key, value))
}

func tooLarge(format string, args ...any) error {
	return fmt.Errorf("exportqueue: %w: "+format, append([]any{percolator.ErrTooLarge}, args...)...)
}
