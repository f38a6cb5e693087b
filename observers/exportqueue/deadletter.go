package exportqueue

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/gopercolator/percolator/observers/internal/sliced"
	"github.com/gopercolator/percolator/percolator"
)

// A dead letter is the cell
//
//	row     QUEUE/PARTITION.SLICE.PART   search_exports/001.01a2b3c4d5.e6
//	column  START SEQ                    01a2b3c4d5e6f70700000002
//	value   length of the reason as a uvarint, reason, value of the entry
//
// so that several queues may share a table, and a letter says where its entry was: QUEUE is the
// queue's table, whose name has no slash.

// DeadLetter is an entry that its receiver has refused ([Reject]). Its CommitTS is the commit
// timestamp of the transaction that recorded the refusal.
type DeadLetter struct {
	Entry
	Queue  string // Config.Table of its queue
	Reason string // the text of the error given to Reject, at most MaxReasonBytes

	cell percolator.Cell
}

// ID names the letter within its table: the queue, the partition, StartTS and Seq. It has no bytes
// of the key.
func (l DeadLetter) ID() string { return l.cell.Row + "." + l.cell.Column }

// DeadLetterTable returns the table of dead letters for the schema, and false if Config.DeadLetters
// is not set. Queues that share one add it once.
func (q *Queue) DeadLetterTable() (t percolator.Table, ok bool) {
	return percolator.Table{Name: q.cfg.DeadLetters}, q.cfg.DeadLetters != ""
}

// DeadLetters streams what the snapshot of r holds of a table of dead letters: those of one queue,
// named by its table, or with "" of all, by queue and partition, each in order. It reads every
// letter with its value. percolator.ErrInvalidArgument: the table holds something else.
// percolator.ErrCorrupt: a dead letter cannot be decoded. An error ends the stream.
func DeadLetters(ctx context.Context, r percolator.Reader, table, queue string) iter.Seq2[DeadLetter, error] {
	rows := percolator.All()
	if queue != "" {
		rows = percolator.Prefix(queue + "/")
	}
	return func(yield func(DeadLetter, error) bool) {
		for e, err := range r.Scan(ctx, table, rows) {
			var l DeadLetter
			if err == nil {
				l, err = decodeLetter(e)
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

// Retry puts the letter's entry back into its queue, in tx, which has to commit. It is delivered
// with the StartTS and Seq that it had, soon and perhaps behind newer entries of its key: a
// receiver that keeps the highest number of each key ignores it then. percolator.ErrNotFound: the
// letter is gone, because another caller has retried or dropped it. Other errors are those of
// percolator.Txn.Get and Set.
func (l DeadLetter) Retry(ctx context.Context, tx *percolator.Txn) error {
	if err := l.Drop(ctx, tx); err != nil {
		return err
	}
	at := percolator.Cell{Table: l.Queue, Row: strings.TrimPrefix(l.cell.Row, l.Queue+"/"), Column: l.cell.Column}
	partition, err := sliced.Part(at.Row)
	if err != nil {
		return corrupt(l.cell, "the row names no partition")
	}
	slice := at.Row[:sliced.RowBytes]
	if err := tx.Notify(percolator.Cell{Table: l.Queue, Row: slice, Column: exportColumn(partition)}); err != nil {
		return err
	}
	// Runs for other slices have to find it (I22).
	position := positionCell(l.Queue, partition)
	switch from, err := tx.GetForUpdate(ctx, position); {
	case err != nil && !errors.Is(err, percolator.ErrNotFound):
		return err
	case string(from) > slice:
		if err := tx.Set(position, []byte(slice)); err != nil {
			return err
		}
	}
	return tx.Set(at, encodeValue(l.Key, l.Value))
}

// Drop deletes the letter, in tx, which has to commit: the entry is given up. Errors are those of
// Retry.
func (l DeadLetter) Drop(ctx context.Context, tx *percolator.Txn) error {
	if _, err := tx.Get(ctx, l.cell); err != nil {
		return fmt.Errorf("exportqueue: dead letter %s: %w", l.ID(), err)
	}
	return tx.Delete(l.cell)
}

func letterCell(table string, entry percolator.Cell) percolator.Cell {
	return percolator.Cell{Table: table, Row: entry.Table + "/" + entry.Row, Column: entry.Column}
}

func encodeLetter(reason string, entry []byte) []byte {
	b := binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen16+len(reason)+len(entry)), uint64(len(reason)))
	return append(append(b, reason...), entry...)
}

func decodeLetter(e percolator.Entry) (DeadLetter, error) {
	cell := e.Cell
	queue, row, ok := strings.Cut(cell.Row, "/")
	if !ok || len(row) != len(entryRow(sliced.Row(0, 0), 0)) {
		return DeadLetter{}, invalid("%s is no table of dead letters: it holds %s", cell.Table, cell)
	}
	n, used := binary.Uvarint(e.Value)
	if used <= 0 || n > uint64(len(e.Value)-used) {
		return DeadLetter{}, corrupt(cell, "the value has no reason")
	}
	reason := string(e.Value[used : used+int(n)])
	e.Value = e.Value[used+int(n):]
	entry, err := decode(e)
	return DeadLetter{Entry: entry, Queue: queue, Reason: reason, cell: cell}, err
}
