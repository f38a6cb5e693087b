package workload

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/history"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// Reader records what is read through a transaction or a snapshot.
type Reader struct {
	percolator.Scanner
	rec *history.Txn
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
	return values, nil
}

func (r Reader) scan(ctx context.Context, table, from, to string, columns ...string) (es []history.Entry, err error) {
	for e, err := range r.entries(ctx, table, from, to, columns...) {
		if err != nil {
			corrupt(r.rec, err)
			return nil, err
		}
		es = append(es, history.Entry{Cell: history.Cell(e.Cell), Value: e.Value, Commit: e.CommitTS})
	}
	r.rec.Scan(table, from, to, columns, es)
	return es, nil
}

// entries scans a range by Scan, or by ScanWith of several that overlap and together are the same:
// the answer is the same.
func (r Reader) entries(ctx context.Context, table, from, to string, columns ...string) iter.Seq2[percolator.Entry, error] {
	cuts := []string{"", "a3", "07-", "duty1", "n4", "p5", "wide1", "x"}
	at := int(r.StartTimestamp() % tso.Timestamp(2*len(cuts)))
	if at >= len(cuts) {
		return r.Scan(ctx, table, percolator.Between(from, to), columns...)
	}
	first, second := percolator.Between(from, cuts[at]+"~"), percolator.Between(max(from, cuts[at]), to)
	if to != "" && to < first.End {
		first.End = to
	}
	o := percolator.ScanOptions{Rows: []percolator.Range{second, first}}
	if len(columns) == 0 {
		o.ColumnRanges = []percolator.Range{percolator.Between("m", ""), percolator.Between("", "next")}
	}
	for _, name := range columns {
		o.ColumnRanges = append(o.ColumnRanges, percolator.Row(name))
	}
	return r.ScanWith(ctx, table, o)
}

// scanFirst stops after n entries: that is a scan of what lies before the end of the last one's
// row. There must be one column only.
func (r Reader) scanFirst(ctx context.Context, table, from, to string, n int, column string) (es []history.Entry, err error) {
	for e, err := range r.Scan(ctx, table, percolator.Between(from, to), column) {
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

// scanIndex scans an index of people.
func (r Reader) scanIndex(ctx context.Context, index, column, from, to string) error {
	var es []history.Entry
	for e, err := range r.ScanIndex(ctx, people, index, percolator.Between(from, to)) {
		if err != nil {
			corrupt(r.rec, err)
			return err
		}
		es = append(es, history.Entry{Cell: history.Cell(e.Cell), Value: e.Value})
	}
	r.rec.IndexScan(people, column, from, to, es)
	return nil
}

func (a *attempt) scan(ctx context.Context, table, from, to string, columns ...string) ([]history.Entry, error) {
	es, err := Reader{a.tx, a.rec}.scan(ctx, table, from, to, columns...)
	if err == nil && a.locks {
		for _, e := range es {
			a.rec.Lock(e.Cell)
		}
	}
	return es, err
}

// View reads a snapshot.
func (s *Session) View(ctx context.Context, kind string, f func(context.Context, Reader) error, opts ...percolator.ReadOption) {
	rec := s.History.Begin(s.Name, kind)
	err := s.Client.View(ctx, func(ctx context.Context, snap *percolator.Snapshot) error {
		if len(opts) > 0 {
			rec.StartedAt(snap.StartTimestamp())
		} else {
			rec.Started(snap.StartTimestamp())
		}
		return f(ctx, Reader{snap, rec})
	}, opts...)
	corrupt(rec, err)
	o := history.Committed
	if err != nil {
		o = history.Aborted
	}
	rec.End(o, 0)
	s.tally(kind, func(c *Count) {
		if err != nil {
			c.Aborted++
		} else {
			c.Read++
		}
	})
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

// viewPeople looks at people by their table and by both indexes.
func (s *Session) viewPeople(ctx context.Context) {
	s.View(ctx, "view people", func(ctx context.Context, r Reader) error {
		from := fmt.Sprintf("m%02d", s.Rand.IntN(mails))
		if err := r.scanIndex(ctx, "mail", "mail", from, ""); err != nil {
			return err
		}
		city := s.Rand.IntN(cities)
		if err := r.scanIndex(ctx, "city", "city", fmt.Sprintf("city%d", city), fmt.Sprintf("city%d", city+1)); err != nil {
			return err
		}
		_, err := r.scan(ctx, people, "", "")
		return err
	})
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
	s.Rand.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
	return cells[:1+s.Rand.IntN(len(cells))]
}

// somePast is when somebody was told of a commit: the commit itself is seen, one tick below it is
// not.
func (s *Session) somePast() (tso.Timestamp, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.past) == 0 {
		return 0, false
	}
	return s.past[len(s.past)-1-s.Rand.IntN(min(len(s.past), 100))] - tso.Timestamp(s.Rand.IntN(2)), true
}

// viewPast reads as of a commit that somebody was told of.
func (s *Session) viewPast(ctx context.Context) {
	ts, ok := s.somePast()
	if !ok {
		return
	}
	s.View(ctx, "view past", func(ctx context.Context, r Reader) error {
		if err := r.checkBank(ctx); err != nil {
			return err
		}
		if err := r.checkRing(ctx); err != nil {
			return err
		}
		_, err := r.cells(ctx, s.someCells()...)
		return err
	}, percolator.AsOfTimestamp(ts))
}

// dwell keeps a snapshot for a while and reads it again and again. In the end it may be too old,
// but never wrong.
func (s *Session) dwell(ctx context.Context) {
	s.View(ctx, "dwell", func(ctx context.Context, r Reader) error {
		for range 4 + s.Rand.IntN(10) {
			if err := r.checkBank(ctx); err != nil {
				return orTooOld(err)
			}
			if err := r.checkRing(ctx); err != nil {
				return orTooOld(err)
			}
			if _, err := r.cells(ctx, s.someCells()...); err != nil {
				return orTooOld(err)
			}
			if _, err := r.scan(ctx, registers, "", ""); err != nil {
				return orTooOld(err)
			}
			wait(ctx, time.Duration(s.Rand.Int64N(int64(time.Second))))
		}
		return nil
	})
}

// orTooOld takes it for an answer that a snapshot can no longer be read.
func orTooOld(err error) error {
	if errors.Is(err, percolator.ErrSnapshotTooOld) {
		return nil
	}
	return err
}

// viewHeld reads a snapshot under a hold, which has to be readable as long as the hold is there.
func (s *Session) viewHeld(ctx context.Context) {
	h, err := admin.New(s.Client).TakeHold(ctx, 0, 3*time.Minute, "soak")
	if err != nil {
		return
	}
	s.View(ctx, "view held", func(ctx context.Context, r Reader) (err error) {
		defer func() { s.checkRefusal(ctx, r, h, err) }()
		for range 5 {
			wait(ctx, time.Duration(s.Rand.Int64N(int64(time.Second))))
			if err := r.checkBank(ctx); err != nil {
				return err
			}
			if _, err := r.scan(ctx, people, "", ""); err != nil {
				return err
			}
		}
		return nil
	}, percolator.AsOfTimestamp(h.Timestamp))
	_ = admin.New(s.Client).ReleaseHold(ctx, h) // else it expires
}

// checkRefusal looks at whether a snapshot was refused although its hold was there all the time. It
// is no fault if the client could not learn the safepoint.
func (s *Session) checkRefusal(ctx context.Context, r Reader, h admin.Hold, err error) {
	if !errors.Is(err, percolator.ErrSnapshotTooOld) || status.Code(err) != codes.Unknown || ctx.Err() != nil {
		return
	}
	now, oops := s.Client.Snapshot(ctx)
	if oops == nil && now.StartTimestamp() < h.Expires {
		r.rec.Broken("a snapshot under a hold until %d was refused at %d: %v", h.Expires, now.StartTimestamp(), err)
	}
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
