package settle

import (
	"context"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/gopercolator/percolator/internal/journal"
	"github.com/gopercolator/percolator/tso"
)

// adopt looks at the rows of a stream that are due, then at those that it has not read, and moves
// the low position. A look that fails, for lack of a right to one table perhaps, holds up no other.
func (a *Adopter) adopt(ctx context.Context, st *adopted) (failed error) {
	ctx, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	look := func(rows []journal.StreamRow, pace *rate.Limiter) error {
		if err := a.look(ctx, st, rows, pace); err != nil {
			failed = err
		}
		return ctx.Err()
	}
	for due := st.due(time.Now()); len(due) > 0 && a.more.Tokens() > 0; due = due[min(len(due), adoptRows):] {
		seqs := due[:min(len(due), adoptRows)]
		rows, err := journal.ReadRows(ctx, a.Looker.Store, st.stream.ID, seqs)
		if err != nil {
			return err
		}
		for _, seq := range seqs {
			if !slices.ContainsFunc(rows, func(r journal.StreamRow) bool { return r.Seq == seq }) {
				a.drop(st, seq) // collected
			}
		}
		if err := look(rows, a.more); err != nil {
			return err
		}
	}
	pace := a.first
	if !st.ended && !st.fresh {
		pace = a.more
	}
	if !time.Now().Before(st.more) {
		if err := a.readOn(ctx, st, pace, look); err != nil {
			return err
		}
	}
	if err := a.writeLow(ctx, st); err != nil {
		return err
	}
	return failed
}

// readOn looks at the rows of a stream that were not read yet, as far as the pace goes.
func (a *Adopter) readOn(ctx context.Context, st *adopted, pace *rate.Limiter, look func([]journal.StreamRow, *rate.Limiter) error) error {
	room := func() bool { return a.unsettled < maxUnsettled && pace.Tokens() > 0 }
	if !room() {
		return nil
	}
	for rows, err := range journal.ReadStream(ctx, a.Looker.Store, st.stream.ID, st.next, adoptRows) {
		if err == nil {
			err = look(rows, pace)
		}
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			st.quiet = 0
		}
		if !room() {
			return nil
		}
	}
	a.through(st)
	return nil
}

// due is the numbers of rows to look at again, in order.
func (st *adopted) due(now time.Time) (seqs []uint64) {
	for seq, row := range st.rows {
		if !now.Before(row.due) {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	return seqs
}

// through is called at the end of a stream. It ends the look with which a worker begins: an owner
// that lives looks again. One whose session has ended appends nothing more, or hardly.
func (a *Adopter) through(st *adopted) {
	if st.fresh = false; st.ended {
		st.more = time.Now().Add(rest(st.quiet))
		st.quiet++
		return
	}
	if a.Watch.Load() {
		return
	}
	st.watch = time.Now().Add(watchEvery)
	a.unsettled -= len(st.rows)
	st.next, st.rows = st.stream.Low, map[uint64]*unsettled{}
}

// look looks at the entries of some rows of a stream. An error concerns some of them: what could
// not be looked at is not settled.
func (a *Adopter) look(ctx context.Context, st *adopted, rows []journal.StreamRow, pace *rate.Limiter) error {
	var items []*Item
	var of []int
	now, named := time.Now(), len(rows)
	for i, row := range rows {
		read := now
		if u := st.rows[row.Seq]; u != nil {
			read = u.read
		}
		for _, e := range row.Entries {
			items = append(items, &Item{Entry: e, Session: st.stream.Session, Alive: !st.ended, Read: read})
			of = append(of, i)
			named += len(e.Rows)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	spend(pace, now, named)
	done, err := a.Looker.Look(ctx, items)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	left, found := make([][]journal.Entry, len(rows)), make([]Backlog, len(rows))
	for j, ok := range done {
		if i, it := of[j], items[j]; !ok {
			left[i], found[i] = append(left[i], it.Entry), found[i].with(Backlog{it.Notified, it.Expired})
		}
	}
	var stale []uint64
	var entries []journal.Entry
	for i, row := range rows {
		u := a.looked(st, row.Seq, len(left[i]) > 0, now)
		if u == nil {
			continue
		}
		u.found, u.begun = found[i], firstOf(left[i])
		if st.ended && now.Sub(u.read) > takeOverAfter {
			stale, entries = append(stale, row.Seq), append(entries, left[i]...)
		}
	}
	if a.takeOver(ctx, entries) {
		for _, seq := range stale {
			a.drop(st, seq)
		}
	}
	return err
}

// firstOf is the least start timestamp of entries; 0: there are none.
func firstOf(entries []journal.Entry) (ts tso.Timestamp) {
	for _, e := range entries {
		ts = earliest(ts, e.StartTS)
	}
	return ts
}

// looked notes that a row was looked at, and whether anything is left of it; nil: nothing.
func (a *Adopter) looked(st *adopted, seq uint64, left bool, asked time.Time) *unsettled {
	st.next = max(st.next, seq+1)
	if !left {
		a.drop(st, seq)
		return nil
	}
	u := st.rows[seq]
	if u == nil {
		u = &unsettled{read: asked}
		st.rows[seq] = u
		a.unsettled++
	}
	u.due = time.Now().Add(rest(u.looks))
	u.looks++
	return u
}

// rest is how long to rest after so many looks that led to nothing.
func rest(looks int) time.Duration { return min(adoptEvery<<min(looks, 12), rarestAdopt) }

// takeOver appends entries to streams of this client, which looks at them from then on.
func (a *Adopter) takeOver(ctx context.Context, left []journal.Entry) bool {
	copies := make([]*journal.Append, len(left))
	for i := range left {
		w, err := a.own.Append(ctx, &left[i])
		if err != nil {
			return false
		}
		copies[i] = w
	}
	return !slices.ContainsFunc(copies, func(w *journal.Append) bool { return w.Wait(ctx) != nil })
}

// writeLow stores how far a stream is settled, if its owner is dead.
func (a *Adopter) writeLow(ctx context.Context, st *adopted) error {
	low := st.next
	for seq := range st.rows {
		low = min(low, seq)
	}
	if !st.ended || low <= st.stream.Low {
		return nil
	}
	if err := journal.WriteLow(ctx, a.Looker.Store, map[journal.StreamID]uint64{st.stream.ID: low}); err != nil {
		return err
	}
	st.stream.Low, st.idle.low = low, low
	return nil
}
