package emulator_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Who looks whether everything is done must not do any of it: a reader of this module resolves the
// locks that it meets, and WaitIdle queues what it finds. So the tables are read with a plain
// Bigtable client.

// journaledRow is a row that a transaction's entry names.
type journaledRow struct {
	start      tso.Timestamp
	table, row string
}

// journaledRows reads the whole journal.
func journaledRows(ctx context.Context, store *bigtable.Client) (named map[journaledRow]bool, err error) {
	named = map[journaledRow]bool{}
	var bad error
	err = store.Open(journalTable).ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		for _, it := range r["journal"] {
			if it.Column != "journal:batch" {
				continue
			}
			entries, err := journal.DecodeBatch(it.Value)
			bad = errors.Join(bad, err)
			for _, e := range entries {
				for _, row := range e.Rows {
					named[journaledRow{e.StartTS, row.Table, row.Key}] = true
				}
			}
		}
		return true
	})
	return named, errors.Join(err, bad)
}

// dirtyCells lists the cells with a notify cell or a lock in the observed tables, as
// family/table/row/column, but for locks without an entry in the journal: those are for whoever
// meets them (J8).
func dirtyCells(ctx context.Context, store *bigtable.Client) (cells []string, err error) {
	var named map[journaledRow]bool
	for _, table := range []string{guaranteeDocs, guaranteeLeaves} {
		if err == nil && named == nil {
			named, err = journaledRows(ctx, store)
		}
		if err != nil {
			return nil, err
		}
		err := store.Open(table).ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
			for _, family := range []string{"lock", "notify"} {
				for _, it := range r[family] {
					if family == "lock" && !named[journaledRow{tso.Timestamp(it.Timestamp / 1000), table, r.Key()}] {
						continue
					}
					cells = append(cells, fmt.Sprintf("%s/%s/%s/%s", family, table, r.Key(), strings.TrimPrefix(it.Column, family+":")))
				}
			}
			return true
		}, bigtable.RowFilter(bigtable.ChainFilters(bigtable.FamilyFilter("lock|notify"), bigtable.StripValueFilter())))
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(cells)
	return slices.Compact(cells), nil
}

// ackColumnOf is the qualifier of an acknowledgment (docs/internals/PROTOCOL.md, "Cells").
func ackColumnOf(observer, column string) string { return "\x00ack\x00" + observer + "\x00" + column }

// heldUpByFlaky returns the number of stuck rows, those whose newest change observer steady has not
// acknowledged, and those that flaky has.
func heldUpByFlaky(ctx context.Context, store *bigtable.Client) (rows int, waiting, early []string, err error) {
	err = store.Open(guaranteeDocs).ReadRows(ctx, bigtable.PrefixRange(stuckPrefix), func(r bigtable.Row) bool {
		rows++
		var change, steady tso.Timestamp
		for _, it := range r["write"] {
			commit := tso.Timestamp(it.Timestamp / 1000)
			start, kind := tso.Timestamp(binary.BigEndian.Uint64(it.Value)), it.Value[8]
			switch column := strings.TrimPrefix(it.Column, "write:"); {
			case column == "in" && kind != 'R':
				change = max(change, commit)
			case column == ackColumnOf("steady", "in") && kind == 'L':
				steady = max(steady, start)
			case column == ackColumnOf("flaky", "in") && kind == 'L':
				early = append(early, r.Key())
			}
		}
		if steady < change {
			waiting = append(waiting, r.Key())
		}
		return true
	}, bigtable.RowFilter(bigtable.FamilyFilter("write")))
	return rows, waiting, early, err
}

// errNotQuiet tells that the time for it is over.
var errNotQuiet = errors.New("the tables never came to rest")

// awaitQuiet waits until nothing is dirty or locked and no run is under way. What was committed
// while the tables were read was committed by a run, which shows in the counts before or after.
func awaitQuiet(ctx context.Context, store *bigtable.Client, count func() (started int64, busy bool)) error {
	var cells []string
	for {
		before, busy := count()
		if !busy {
			now, err := dirtyCells(ctx, store)
			if err != nil && ctx.Err() == nil {
				return err
			}
			if err == nil {
				cells = now
			}
			if after, busy := count(); err == nil && len(cells) == 0 && !busy && after == before {
				return nil
			}
		}
		pause(ctx, 20*time.Millisecond)
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %d cells, such as %q", errNotQuiet, len(cells), cells[:min(len(cells), 5)])
		}
	}
}

// work counts what the workers have started.
func work(all []*guaranteeWorker) (started int64, busy bool) {
	for _, w := range all {
		s := w.Stats()
		started += begunBy(s)
		busy = busy || s.Queued+s.Running > 0
	}
	return started, busy
}

func begunBy(s observers.Stats) int64 { return s.Attempts + s.Acknowledged + s.Errors + s.Conflicts }

// finalValues reads cells at the end; nil is absence.
func finalValues(ctx context.Context, c *percolator.Client, cells []percolator.Cell) (map[percolator.Cell][]byte, error) {
	values := map[percolator.Cell][]byte{}
	err := c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		for part := range slices.Chunk(cells, 500) {
			vs, err := s.GetMulti(ctx, part...)
			if err != nil {
				return err
			}
			for i, v := range vs {
				values[part[i]] = v
			}
		}
		return nil
	})
	return values, err
}
