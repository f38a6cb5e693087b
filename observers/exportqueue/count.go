package exportqueue

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// What CountDeadLetters reads of one queue in one table: so many letters, or fewer whose values
// have about so many bytes.
const (
	// MaxCounted is how many letters of a queue are counted. Beyond it a count says "more than".
	MaxCounted = 1000

	maxCountedBytes = 4 << 20
	maxFirst        = 5
)

// DeadLetterCount sums up the dead letters of a queue.
type DeadLetterCount struct {
	Table   string // of dead letters
	Queue   string // Config.Table of the queue
	Letters int
	More    bool          // there are more than Letters
	Oldest  tso.Timestamp // when the first of those counted was refused
	First   []DeadLetter  // five at most, without their values
}

// CountDeadLetters counts the dead letters of each queue of the schema that has any, at most
// [MaxCounted] of each, by table and queue. The schema does not say which tables hold them. So the
// snapshot of r is asked, in each table that has no observed or weak column and no index, for the
// rows that dead letters of these queues have: one request a table, which reads next to nothing of
// a table that holds something else. percolator.ErrCorrupt: a letter cannot be decoded. Those that
// were retried or dropped cost reads until they are collected, so give ctx a deadline. Like every
// read, it resolves the locks of dead transactions that it meets.
func CountDeadLetters(ctx context.Context, r percolator.Scanner, s *percolator.Schema) (counts []DeadLetterCount, err error) {
	rows := letterRows(s)
	for _, t := range s.Tables {
		if len(t.Observed)+len(t.Weak)+len(t.Indexes) > 0 {
			continue
		}
		for rest := rows; len(rest) > 0; {
			var found []DeadLetterCount
			if found, rest, err = countFrom(ctx, r, t.Name, rest); err != nil {
				return nil, err
			}
			counts = append(counts, found...)
		}
	}
	return counts, nil
}

// letterRows is where a table holds dead letters, queue by queue in the order of the rows.
func letterRows(s *percolator.Schema) (rows []percolator.Range) {
	for _, t := range s.Tables {
		if slices.Contains(t.Weak, exportColumn(0)) {
			rows = append(rows, percolator.Prefix(t.Name+"/0")) // partitions have three digits, of which this is the first
		}
	}
	slices.SortFunc(rows, func(a, b percolator.Range) int { return strings.Compare(a.Start, b.Start) })
	return rows
}

// countFrom counts up to a queue that has more letters than are counted. rest are the rows behind
// that queue.
func countFrom(ctx context.Context, r percolator.Scanner, table string, rows []percolator.Range) (counts []DeadLetterCount, rest []percolator.Range, err error) {
	bytes := 0
	for e, err := range r.ScanWith(ctx, table, percolator.ScanOptions{Rows: rows}) {
		if err != nil {
			return nil, nil, err
		}
		l, err := decodeLetter(e)
		if errors.Is(err, percolator.ErrInvalidArgument) {
			continue // such rows are another table's
		}
		if err != nil {
			return nil, nil, err
		}
		if n := len(counts); n == 0 || counts[n-1].Queue != l.Queue {
			counts, bytes = append(counts, DeadLetterCount{Table: table, Queue: l.Queue, Oldest: l.CommitTS}), 0
		}
		c := &counts[len(counts)-1]
		if c.More = c.Letters == MaxCounted || bytes >= maxCountedBytes; c.More {
			behind := slices.IndexFunc(rows, func(r percolator.Range) bool { return r.Start > e.Cell.Row })
			if behind < 0 {
				return counts, nil, nil
			}
			return counts, rows[behind:], nil
		}
		c.Letters, c.Oldest, bytes = c.Letters+1, min(c.Oldest, l.CommitTS), bytes+len(l.Value)
		if len(c.First) < maxFirst {
			l.Value = nil
			c.First = append(c.First, l)
		}
	}
	return counts, nil, nil
}
