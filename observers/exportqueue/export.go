package exportqueue

import (
	"context"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/internal/sliced"
	"github.com/gopercolator/percolator/percolator"
)

// Observe registers the observers that deliver, one for each partition, named after Config.Name and
// the partition. client, the worker's or another one of the same store, searches for entries.
// [observers.NewWorker] reports a nil client or deliver, and a schema without Config.DeadLetters.
//
// deliver is called with 1 to Config.MaxEntries entries of one partition, in order. It returns nil
// when the receiver has them for good, and [Reject] when it has all but some, which it refuses.
// After another error, and sometimes without one, the same entries are delivered again. A worker
// makes one call at a time for each partition, and concurrent calls for different ones. opts apply
// to each observer: observers.Timeout limits a delivery, observers.Collapse and observers.After
// wait for more entries.
func (q *Queue) Observe(r *observers.Registry, client *percolator.Client, deliver func(ctx context.Context, batch []Entry) error,
	opts ...observers.Option,
) {
	if q.cfg.DeadLetters != "" {
		opts = append(opts[:len(opts):len(opts)], observers.NeedsTables(q.cfg.DeadLetters))
	}
	sliced.Observe(r, q.cfg.Name, q.Table(), func(p int) observers.Func {
		if deliver == nil || client == nil { // NewWorker reports it
			return nil
		}
		return func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
			return q.export(ctx, client, tx, ch, p, deliver)
		}
	}, opts)
}

// Observers returns the names of the observers that deliver, so that others can wait until nothing
// is left to deliver: observers.After(limit, q.Observers()...).
func (q *Queue) Observers() []string { return sliced.Observers(q.cfg.Name, q.cfg.Partitions) }

// export delivers and deletes the oldest entries of a partition, whichever of its slices was
// notified.
func (q *Queue) export(ctx context.Context, client *percolator.Client, tx *percolator.Txn, ch observers.Change, partition int,
	deliver func(context.Context, []Entry) error,
) error {
	b, err := q.collect(ctx, client, tx, partition, ch.Cell.Row)
	if err != nil {
		return err
	}
	if len(b.entries) > 0 {
		if err := q.bury(ctx, tx, b, deliverInTime(ctx, b.entries, deliver)); err != nil {
			return q.join(ctx, client, tx, ch.Cell, partition, b, err)
		}
	}
	for _, c := range b.cells {
		if err := tx.Delete(c); err != nil {
			return err
		}
	}
	if err := q.passOn(tx, ch.Cell, partition, b); err != nil || len(b.entries) == 0 || b.backlog != "" && b.more {
		return err
	}
	return q.advance(ctx, client, tx, partition, b.from, b.dirty)
}

// deliverInTime leaves a tenth of the observer's timeout to the transaction, which commits also
// where a delivery has failed. A panic is a failure like others: the run joins the backlog.
func deliverInTime(ctx context.Context, entries []Entry, deliver func(context.Context, []Entry) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			value, stack := fmt.Sprint(r), string(debug.Stack())
			err = &observers.PanicError{Value: value[:min(len(value), 256)], Stack: stack[:min(len(stack), 4096)]}
		}
	}()
	if at, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, at.Add(-time.Until(at)/10))
		defer cancel()
	}
	return deliver(ctx, entries)
}

// batch is what one run delivers.
type batch struct {
	entries []Entry
	cells   []percolator.Cell
	bytes   int
	more    bool   // the limits kept something out
	next    string // the slice of the first entry that they kept out

	from    string   // where the search began
	backlog string   // the slice from which on everything was read; "": there is none
	dirty   []string // the slices that are dirty, in order; all were read unless more
	parked  []string // of them, and of those from the backlog on, the ones that are parked
}

// collect reads the oldest entries of a partition that are visible to tx, in order: those of own,
// the slice that was notified, of all slices from the position on that are dirty now, and all from
// the backlog on.
//
// The run erases the notifications of own up to its snapshot, so it has to read that slice even if
// the search does not show it dirty: the search is atomic in each row only. Entries in other slices
// that it misses are not lost, because their notifications stay. Nor do they come out of order. Say
// that A committed before B began, or before B prewrote a cell of both, and that B is visible. Then
// A's commit request had ended before the snapshot was taken, and so was its notification, which
// came first (I11). The notification is there, unless a run that saw the entry erased it, having
// delivered the entry, notified again, or left it to the backlog, which is read once more after the
// search. The search may miss a commit without such a B: its notification can arrive after the
// search has read its slice, though its timestamp is below the snapshot's.
func (q *Queue) collect(ctx context.Context, client *percolator.Client, tx *percolator.Txn, partition int, own string) (*batch, error) {
	from, backlog, err := q.position(ctx, tx, partition)
	if err != nil {
		return nil, err
	}
	end := percolator.Prefix(sliced.Prefix(partition)).End
	found, parked, err := q.search(ctx, client, from, end)
	if err != nil {
		return nil, err
	}
	if err := q.stays(ctx, client, partition, backlog); err != nil {
		return nil, err
	}
	found = append(found, own)
	slices.Sort(found)
	b := &batch{from: from, backlog: backlog, dirty: slices.Compact(found), parked: parked}
	for _, slice := range b.dirty {
		if backlog != "" && slice >= backlog {
			break
		}
		if err := q.read(ctx, tx, percolator.Prefix(slice), b); err != nil || b.more {
			return b, err
		}
	}
	if backlog != "" {
		err = q.read(ctx, tx, percolator.Between(backlog, end), b)
	}
	return b, err
}

// search lists, in order, the slices between two keys that carry notifications or locks, and those
// of them that are parked. A delivery waits for it, so it is no background work.
func (q *Queue) search(ctx context.Context, client *percolator.Client, from, to string) (found, parked []string, err error) {
	for row, err := range client.Engine().Reads.ScanPending(ctx, q.cfg.Table, percolator.Between(from, to)) {
		if err != nil {
			return nil, nil, err
		}
		if len(row.Row) < sliced.RowBytes {
			continue
		}
		found = append(found, row.Row[:sliced.RowBytes])
		for _, n := range row.Notified {
			if len(row.Parked(n)) > 0 {
				parked = append(parked, row.Row)
			}
		}
	}
	return slices.Compact(found), slices.Compact(parked), nil
}

// read adds the entries in rows to b, up to the limits.
func (q *Queue) read(ctx context.Context, tx *percolator.Txn, rows percolator.Range, b *batch) error {
	for e, err := range tx.Scan(ctx, q.cfg.Table, rows) {
		if err != nil {
			return err
		}
		entry, err := decode(e)
		if err != nil {
			return err
		}
		size := len(entry.Key) + len(entry.Value)
		if len(b.entries) == q.cfg.MaxEntries || (len(b.entries) > 0 && b.bytes+size > q.cfg.MaxBytes) {
			b.more, b.next = true, e.Cell.Row[:sliced.RowBytes]
			return nil
		}
		b.entries, b.cells, b.bytes = append(b.entries, entry), append(b.cells, e.Cell), b.bytes+size
	}
	return nil
}

// Pending streams the entries in the snapshot of r whose delivery is not recorded, partition by
// partition, each in order. It reads everything queued within the retention. An error ends the
// stream.
func (q *Queue) Pending(ctx context.Context, r percolator.Reader) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range r.Scan(ctx, q.cfg.Table, percolator.Between("", positionRows)) {
			var entry Entry
			if err == nil {
				entry, err = decode(e)
			}
			if !yield(entry, err) || err != nil {
				return
			}
		}
	}
}
