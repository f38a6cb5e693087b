package settle

import (
	"context"
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

	// lately is over how many turns what a client appends is averaged.
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
	followed time.Time // the last turn
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
			o.turn(ctx)
		case <-tick.C:
			o.follow()
			o.turn(ctx)
			o.writeLow(ctx)
		}
	}
}

// Close writes the low positions a last time, once Run has returned.
func (o *Owner) Close(ctx context.Context) { o.writeLow(ctx) }

func (o *Owner) writeLow(ctx context.Context) {
	low := o.Journal.Own.Low()
	if err := journal.WriteLow(ctx, o.Looker.Store, low); err != nil {
		o.Journal.Own.LowLost(low)
	}
}

// follow sets the pace by what was appended, once in lowEvery or, where looks are slow, more
// rarely.
func (o *Owner) follow() {
	now, n := o.now(), o.Journal.Own.Appended()
	over := max(lowEvery, now.Sub(o.followed))
	o.rate += (float64(n-o.appended)/over.Seconds() - o.rate) / lately
	o.followed, o.appended = now, n
	rows := journal.OwnerRows + int(2*o.rate)
	o.pace.SetLimitAt(o.now(), rate.Limit(rows))
	o.pace.SetBurstAt(o.now(), rows)
}

// turn looks at what is due, as far as the budget goes, and begins no look after lowEvery: looks
// that are slower than the pace do not keep low positions from being written.
func (o *Owner) turn(ctx context.Context) {
	begun := o.now()
	for ctx.Err() == nil && o.pace.TokensAt(o.now()) > 0 && o.now().Sub(begun) < lowEvery {
		more, err := o.look(ctx)
		if err != nil {
			o.Looker.Config.Logger.Debug("journal: a look at own entries failed, and is repeated", "err", err)
		}
		if !more {
			return
		}
	}
}

// ownItem is an item of a look, and where it comes from.
type ownItem struct {
	*Item
	of int             // in the rows that are looked at
	w  *journal.Append // nil: of a row that was read
}

// look looks at some rows of streams at once, and reports whether more may be due.
func (o *Owner) look(ctx context.Context) (more bool, err error) {
	var due []journal.Looking
	var items []ownItem
	named := 0
	for named < lookRows {
		next := o.Journal.Own.Due(o.now(), 1)
		if len(next) == 0 {
			break
		}
		found, rerr := o.items(ctx, next[0], len(due))
		if rerr != nil {
			err = rerr
			o.Journal.Own.Postponed(next[0])
			break
		}
		due, items = append(due, next[0]), append(items, found...)
		for _, it := range found {
			named += len(it.Rows)
		}
		named++ // the row itself
	}
	spend(o.pace, o.now(), named)
	if len(due) == 0 {
		return false, err
	}
	bare := make([]*Item, len(items))
	for i, it := range items {
		bare[i] = it.Item
	}
	settled, lerr := o.Looker.Look(ctx, bare)
	if lerr != nil {
		err = lerr
	}
	var stubborn []*journal.Append
	done, left := make([][]*journal.Append, len(due)), make([][]journal.Entry, len(due))
	for i, it := range items {
		due[it.of].Progress = due[it.of].Progress || it.Progress
		switch {
		case settled[i] && it.w != nil:
			done[it.of] = append(done[it.of], it.w)
		case settled[i]:
		case it.w == nil:
			left[it.of] = append(left[it.of], it.Entry)
		default:
			if lerr == nil || it.Notified != 0 || it.Expired != 0 { // else it was not looked at
				o.Journal.Own.Found(it.w, it.Notified, it.Taken, it.Expired)
			}
			stubborn = append(stubborn, it.w)
		}
	}
	o.again(ctx, stubborn)
	for i, row := range due {
		o.Journal.Own.Looked(row, done[i], left[i])
	}
	return err == nil, err
}

// items is what is to be looked at in a row of a stream. A transaction that may still be committing
// here is left alone.
func (o *Owner) items(ctx context.Context, row journal.Looking, of int) (items []ownItem, err error) {
	if row.Known {
		for _, w := range row.Open {
			it := &Item{Entry: w.Entry(), Read: row.Sent}
			it.CommitTS, it.UnderWay = o.Journal.Own.CommitTS(w)
			if it.Primary != (model.Cell{}) && it.CommitTS == 0 && o.now().Sub(row.Sent) < o.Looker.Store.Timing.RequestLifetime {
				continue
			}
			items = append(items, ownItem{it, of, w})
		}
		return items, nil
	}
	rows, err := journal.ReadRows(ctx, o.Looker.Store, row.Stream, []uint64{row.Seq})
	for _, r := range rows {
		for _, e := range r.Entries {
			items = append(items, ownItem{&Item{Entry: e, Read: row.Sent}, of, nil})
		}
	}
	return items, err
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
