package settle

import (
	"context"
	"errors"
	"time"

	"golang.org/x/time/rate"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// A client looks at its own entries that nothing in this process has settled: phase two of others
// failed, or another process works on their notifications (J4). It reads, a second, at most
// journal.OwnerRows rows and twice those that it has appended lately: the looks at what it appends
// keep up with it, and so do repeated ones, which become rarer the more there is to look at.
const (
	lowEvery = time.Second // how often the low positions are written at most

	// lately is how many ticks an average of what a client appends spans.
	lately = 10
	// lookRows is how many rows a look reads, unless one row of a stream names more.
	lookRows = 1000
)

// Owner settles the entries of its client. It is for one goroutine.
type Owner struct {
	Looker  *Looker
	Journal *journal.Appender

	pace     *rate.Limiter
	now      func() time.Time
	followed time.Time // when the pace was set last
	appended uint64    // rows, as of then
	rate     float64   // of that lately, a second
}

// NewOwner settles what is appended to own.
func NewOwner(l *Looker, own *journal.Appender) *Owner {
	return &Owner{Looker: l, Journal: own, pace: newPace(journal.OwnerRows), now: time.Now}
}

// Run looks at entries and writes low positions until ctx ends.
func (o *Owner) Run(ctx context.Context) {
	ctx = store.InBackground(ctx)
	tick := time.NewTicker(lowEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.Journal.Own.Hurried:
			o.runOnce(ctx)
		case <-tick.C:
			o.follow()
			o.runOnce(ctx)
			o.writeLow(ctx)
		}
	}
}

// Close writes the low positions a last time, once Run has returned.
func (o *Owner) Close(ctx context.Context) { o.writeLow(ctx) }

func (o *Owner) writeLow(ctx context.Context) {
	for _, id := range o.Journal.Own.Crowded(o.now()) {
		if first, err := journal.FirstRow(ctx, o.Looker.Store, id); err == nil {
			o.Journal.Own.Collected(id, first)
		}
	}
	low := o.Journal.Own.Low()
	if err := journal.WriteLow(ctx, o.Looker.Store, low); err != nil {
		o.Journal.Own.LowLost(low)
	}
}

// follow sets the pace by what was appended, once in lowEvery or, where looks are slow, more
// rarely.
func (o *Owner) follow() {
	now, n := o.now(), o.Journal.Own.Appended()
	passed := max(lowEvery, now.Sub(o.followed))
	o.rate += (float64(n-o.appended)/passed.Seconds() - o.rate) / lately
	o.followed, o.appended = now, n
	rows := journal.OwnerRows + int(2*o.rate)
	o.pace.SetLimitAt(o.now(), rate.Limit(rows))
	o.pace.SetBurstAt(o.now(), rows)
}

// runOnce looks at what is due, as far as the budget goes, and starts no look after lowEvery: looks
// that are slower than the pace do not keep low positions from being written.
func (o *Owner) runOnce(ctx context.Context) {
	started := o.now()
	for ctx.Err() == nil && o.pace.TokensAt(o.now()) > 0 && o.now().Sub(started) < lowEvery {
		more, err := o.look(ctx)
		if err != nil {
			o.Looker.Config.Logger.Debug("journal: a look at own entries failed, and is repeated", "err", err)
		}
		if !more {
			return
		}
	}
}

// dueRow is a row that is looked at, or several that were read: as many items as entries.
type dueRow struct {
	journal.DueRow
	items   []Item
	entries []*journal.Append // none: they were read
	seqs    []uint64          // then the rows of the items
	bad     []uint64          // rows that cannot be decoded
}

// look looks at some rows of streams at once, and reports whether more may be due.
func (o *Owner) look(ctx context.Context) (more bool, err error) {
	rows, err := o.take(ctx)
	if len(rows) == 0 {
		return false, err
	}
	var items []Item
	for _, row := range rows {
		items = append(items, row.items...)
	}
	results, lerr := o.Looker.Look(ctx, items)
	if lerr != nil {
		err = lerr
	}
	var stubborn []*journal.Append
	outcomes := make([]journal.Outcome, len(rows))
	for i, row := range rows {
		var left []*journal.Append
		outcomes[i], left = o.outcome(row, results[:len(row.items)], lerr)
		results, stubborn = results[len(row.items):], append(stubborn, left...)
	}
	o.again(ctx, stubborn)
	for i, row := range rows {
		o.Journal.Own.Looked(row.DueRow, outcomes[i])
	}
	return err == nil, err
}

// take takes due rows for one look. After an error there are fewer.
func (o *Owner) take(ctx context.Context) (rows []dueRow, err error) {
	named := 0
	for named < lookRows {
		next := o.Journal.Own.Due(o.now(), 1)
		if len(next) == 0 {
			break
		}
		row := dueRow{DueRow: next[0]}
		if rerr := o.read(ctx, &row, lookRows-named); rerr != nil {
			err = errors.Join(err, rerr)
			if !errors.Is(rerr, model.ErrCorrupt) {
				o.Journal.Own.Postponed(row.DueRow)
				break
			}
		}
		rows = append(rows, row)
		named += row.names()
	}
	spend(o.pace, o.now(), named)
	return rows, err
}

// names is how many rows a look at it reads, those of streams among them.
func (row *dueRow) names() int {
	n := max(1, len(row.Seqs))
	for _, it := range row.items {
		n += len(it.Rows)
	}
	return n
}

// read fills in what is to be looked at in a row. A transaction that may still be committing here
// is left alone. Of rows that have to be read it is as many as name so many rows of tables.
// ErrCorrupt: it is those that can be decoded.
func (o *Owner) read(ctx context.Context, row *dueRow, names int) error {
	if !row.Unread() {
		for _, w := range row.Open {
			it := Item{JournalEntry: w.Entry(), Read: row.Sent}
			it.CommitTS, it.InPhaseTwo = o.Journal.Own.CommitTS(w)
			if it.Primary != (model.Cell{}) && it.CommitTS == 0 && o.now().Sub(row.Sent) < o.Looker.Store.Timing.RequestLifetime {
				continue
			}
			row.items, row.entries = append(row.items, it), append(row.entries, w)
		}
		return nil
	}
	rows, n, err := journal.ReadSome(ctx, o.Looker.Store, row.Stream, row.Seqs, names)
	if err != nil && !errors.Is(err, model.ErrCorrupt) {
		return err
	}
	row.End(n)
	for _, r := range rows {
		for _, e := range r.Entries {
			row.items, row.seqs = append(row.items, Item{JournalEntry: e, Read: row.Sent}), append(row.seqs, r.Seq)
		}
		if len(r.Entries) == 0 {
			row.bad = append(row.bad, r.Seq)
		}
	}
	return err
}

// outcome is what a look has led to in a row, and the remembered entries that it has not settled.
// It notes what was found of these; after an error nothing that was found does not say that there
// is nothing.
func (o *Owner) outcome(row dueRow, results []Result, err error) (out journal.Outcome, left []*journal.Append) {
	out.Rows = row.names()
	if row.Unread() {
		out.Left = row.left(results)
		return out, nil
	}
	for i, r := range results {
		out.Progress = out.Progress || r.Progress
		if r.Settled {
			out.Settled = append(out.Settled, row.entries[i])
			continue
		}
		if err == nil || r.Notified != 0 || r.Expired != 0 {
			o.Journal.Own.Found(row.entries[i], r.Backlog, r.Unlocked)
		}
		left = append(left, row.entries[i])
	}
	return out, left
}

// left is what of rows that were read is not settled.
func (row *dueRow) left(results []Result) (left []journal.LeftRow) {
	for _, seq := range row.bad {
		left = append(left, journal.LeftRow{Seq: seq})
	}
	for i, r := range results {
		if r.Settled {
			continue
		}
		if n := len(left); n == 0 || left[n-1].Seq != row.seqs[i] {
			left = append(left, journal.LeftRow{Seq: row.seqs[i]})
		}
		of := &left[len(left)-1]
		of.Entries = append(of.Entries, journal.LeftEntry{JournalEntry: row.items[i].JournalEntry, Found: r.Backlog, Unlocked: r.Unlocked})
		of.Progress = of.Progress || r.Progress
	}
	return left
}

// again appends those entries again that have been unsettled for long.
func (o *Owner) again(ctx context.Context, stubborn []*journal.Append) {
	copies := make([]*journal.Append, len(stubborn))
	for i, w := range stubborn {
		if !o.Journal.Own.Again(w, o.now()) {
			continue
		}
		e := w.Entry()
		if to, err := o.Journal.Append(ctx, &e); err == nil {
			copies[i] = to
		}
	}
	for i, to := range copies {
		if to != nil && to.Wait(ctx) == nil {
			o.Journal.Own.Copied(stubborn[i], to)
		}
	}
}

// newPace allows so many rows a second, and a second's worth at once.
func newPace(rows int) *rate.Limiter { return rate.NewLimiter(rate.Limit(rows), rows) }

// spend takes rows from a pace, which may go into debt.
func spend(p *rate.Limiter, now time.Time, rows int) {
	for ; rows > 0; rows -= p.Burst() {
		p.ReserveN(now, min(rows, p.Burst()))
	}
}
