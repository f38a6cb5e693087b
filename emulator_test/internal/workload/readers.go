package workload

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Reader records what is read through a transaction or a snapshot.
type Reader struct {
	percolator.Scanner
	rec  *history.Txn
	kept *history.Snapshots // of a snapshot that is read again and again; else nil

	pause time.Duration // of a scan of an index, behind the first entry
}

func (r Reader) cells(ctx context.Context, cells ...percolator.Cell) ([][]byte, error) {
	values, err := r.GetMulti(ctx, cells...)
	if err != nil {
		corrupt(r.rec, err)
		return nil, err
	}
	for i, c := range cells {
		r.rec.Read(history.Cell(c), values[i])
	}
	r.keepValues(cells, values)
	return values, nil
}

func (r Reader) scan(ctx context.Context, table, from, to string, columns ...string) (es []history.Entry, err error) {
	entries, reverse := r.entries(ctx, table, from, to, columns...)
	for e, err := range entries {
		if err != nil {
			corrupt(r.rec, err)
			return nil, err
		}
		es = append(es, history.Entry{Cell: history.Cell(e.Cell), Value: e.Value, Commit: e.CommitTS})
	}
	if reverse {
		es = rowsTurned(es)
	}
	r.rec.Scan(table, from, to, columns, es)
	r.keepScan(table, from, to, columns, es)
	return es, nil
}

// rowsTurned is what a scan in reverse has found, in key order.
func rowsTurned(es []history.Entry) (out []history.Entry) {
	for end := len(es); end > 0; {
		first := end - 1
		for first > 0 && es[first-1].Cell.Row == es[end-1].Cell.Row {
			first--
		}
		out, end = append(out, es[first:end]...), first
	}
	return out
}

// entries scans a range by Scan, or by ScanWith of several that overlap and together are the same,
// in key order or against it: the answer is the same.
func (r Reader) entries(ctx context.Context, table, from, to string, columns ...string) (es iter.Seq2[percolator.Entry, error], reverse bool) {
	cuts := []string{"", "a3", "07-", "duty1", "n4", "p5", "wide1", "x"}
	at := int(r.StartTimestamp() % tso.Timestamp(2*len(cuts)))
	if at >= len(cuts) {
		return r.Scan(ctx, table, percolator.Between(from, to), columns...), false
	}
	first, second := percolator.Between(from, cuts[at]+"~"), percolator.Between(max(from, cuts[at]), to)
	if to != "" && to < first.End {
		first.End = to
	}
	o := percolator.ScanOptions{Rows: []percolator.Range{second, first}, Reverse: at%2 == 0}
	if len(columns) == 0 {
		o.ColumnRanges = []percolator.Range{percolator.Between("m", ""), percolator.Between("", "next")}
	}
	for _, name := range columns {
		o.ColumnRanges = append(o.ColumnRanges, percolator.Row(name))
	}
	return r.ScanWith(ctx, table, o), o.Reverse
}

// scanFirst stops after n entries, by itself or by a limit: that is a scan of what lies before the
// end of the last one's row. There must be one column only.
func (r Reader) scanFirst(ctx context.Context, table, from, to string, n int, column string) (es []history.Entry, err error) {
	o := percolator.ScanOptions{Rows: []percolator.Range{percolator.Between(from, to)}, Columns: []string{column}}
	if r.StartTimestamp()%2 == 0 {
		o.Limit = n
	}
	for e, err := range r.ScanWith(ctx, table, o) {
		if err != nil {
			corrupt(r.rec, err)
			return nil, err
		}
		es = append(es, history.Entry{Cell: history.Cell(e.Cell), Value: e.Value, Commit: e.CommitTS})
		if len(es) == n {
			to = e.Cell.Row + "\x00"
			break
		}
	}
	r.rec.Scan(table, from, to, []string{column}, es)
	return es, nil
}

func (a *attempt) scan(ctx context.Context, table, from, to string, columns ...string) ([]history.Entry, error) {
	es, err := Reader{Scanner: a.tx, rec: a.rec}.scan(ctx, table, from, to, columns...)
	if err == nil && a.locks {
		for _, e := range es {
			a.rec.Lock(e.Cell)
		}
	}
	return es, err
}

// View reads a snapshot. With options it is one of the past, which others may read as well.
func (s *Session) View(ctx context.Context, kind string, f func(context.Context, Reader) error, opts ...percolator.ReadOption) {
	rec := s.History.Begin(s.Name, kind)
	_ = s.view(ctx, rec, func(ctx context.Context, snap *percolator.Snapshot) error {
		r := Reader{Scanner: snap, rec: rec}
		if len(opts) > 0 {
			rec.StartedAt(snap.StartTimestamp())
			r.kept = s.snapshots
		} else {
			rec.Started(snap.StartTimestamp())
		}
		return f(ctx, r)
	}, opts...)
}

// view records how a snapshot ended, and counts it.
func (s *Session) view(ctx context.Context, rec *history.Txn, f func(context.Context, *percolator.Snapshot) error, opts ...percolator.ReadOption) error {
	err := s.Client.View(ctx, f, opts...)
	corrupt(rec, err)
	o := history.Committed
	if err != nil {
		o = history.Aborted
	}
	rec.End(o, 0)
	s.tally(rec.Kind, func(c *Count) {
		if err != nil {
			c.Aborted++
		} else {
			c.Read++
		}
	})
	return err
}

// checkBank scans all accounts: the sum never changes.
func (r Reader) checkBank(ctx context.Context) error {
	es, err := r.scan(ctx, bank, "", "", "balance")
	if err != nil {
		return err
	}
	sum := int64(0)
	for _, e := range es {
		sum += number(e.Value)
	}
	if len(es) != accounts || sum != accounts*balance {
		r.rec.Broken("%d accounts hold %d, not %d", len(es), sum, accounts*balance)
	}
	return nil
}

// checkRing follows the ring: it is one cycle through all nodes.
func (r Reader) checkRing(ctx context.Context) error {
	es, err := r.scan(ctx, ring, "", "")
	if err != nil {
		return err
	}
	next := map[string]string{}
	for _, e := range es {
		next[e.Cell.Row] = says(e.Value)
	}
	at, steps := nodeName(0), 0
	for range nodes {
		steps++
		if at = next[at]; at == nodeName(0) || at == "" {
			break
		}
	}
	if at != nodeName(0) || steps != nodes {
		r.rec.Broken("the ring comes to %q after %d steps", at, steps)
	}
	return nil
}

func (r Reader) checkDuty(ctx context.Context) error {
	values, err := r.cells(ctx, duty(0), duty(1))
	if err == nil && says(values[0]) != "on" && says(values[1]) != "on" {
		r.rec.Broken("nobody is on duty")
	}
	return err
}

// checkWide scans the registers, in which the columns of a wide row are equal.
func (r Reader) checkWide(ctx context.Context) error {
	es, err := r.scan(ctx, registers, "wide", "wide~")
	if err != nil {
		return err
	}
	rows := map[string]string{}
	for _, e := range es {
		if v, ok := rows[e.Cell.Row]; ok && v != string(e.Value) {
			r.rec.Broken("the columns of a wide row differ")
		}
		rows[e.Cell.Row] = string(e.Value)
	}
	return nil
}

func (s *Session) viewBank(ctx context.Context) {
	s.View(ctx, "view bank", func(ctx context.Context, r Reader) error { return r.checkBank(ctx) })
}

func (s *Session) viewRing(ctx context.Context) {
	s.View(ctx, "view ring", func(ctx context.Context, r Reader) error { return r.checkRing(ctx) })
}

// viewMany reads cells of many rows and tables at once.
func (s *Session) viewMany(ctx context.Context) {
	s.View(ctx, "view many", func(ctx context.Context, r Reader) error {
		_, err := r.cells(ctx, s.someCells()...)
		if err == nil {
			err = r.checkDuty(ctx)
		}
		if err == nil {
			err = r.checkWide(ctx)
		}
		if err == nil {
			_, err = r.scanFirst(ctx, bank, "", "", 1+s.Rand.IntN(accounts), "balance")
		}
		return err
	})
}

// someCells are cells that others write.
func (s *Session) someCells() []percolator.Cell {
	cells := append([]percolator.Cell{account(s.Rand.IntN(accounts)), account(s.Rand.IntN(accounts)), node(nodeName(s.Rand.IntN(nodes))),
		person(s.Rand.IntN(persons), "mail"), person(s.Rand.IntN(persons), "city"),
		cell(registers, "counter0", "n"), cell(registers, "slot0", "s"), cell(registers, "blind0", "b"),
		cell(pings, "k0", "tally"), receiptCell(max(s.ids.Load()-s.Rand.Int64N(50), 1))},
		wideCells(s.Rand.IntN(wideRows))...)
	for n := range activeLists {
		c := s.listCell(n)
		cells = append(cells, c, cell(copies, c.Row, "copy"))
	}
	cells = append(cells, s.somePermits()...)
	s.Rand.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
	return cells[:1+s.Rand.IntN(len(cells))]
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// sweep deletes old receipts. What it has scanned is proof enough.
func (s *Session) sweep(ctx context.Context) {
	s.transact(ctx, options{kind: "sweep"}, func(ctx context.Context, a *attempt) error {
		bucket := fmt.Sprintf("%02d-", s.Rand.IntN(buckets))
		es, err := a.scan(ctx, receipts, bucket, strings.Replace(bucket, "-", ".", 1))
		if err != nil {
			return err
		}
		deleted := 0
		for _, e := range es {
			if id := idOf(e.Value); id < s.ids.Load()-keptBack && deleted < 100 {
				if err := a.delete(percolator.Cell(e.Cell)); err != nil {
					return err
				}
				deleted++
			}
		}
		if deleted == 0 {
			return errGiveUp
		}
		return nil
	})
}
