package settle

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/tso"
)

// adopt looks at the rows of a stream that are due, then at those that it has not read, and moves
// the low position. A look that fails, for lack of a right to one table perhaps, holds up no other,
// and those that take long do not keep the turn from what comes after them.
func (a *Adopter) adopt(ctx context.Context, st *adopted) (failed error) {
	look := func(within context.Context, rows []journal.StreamRow, pace *rate.Limiter) error {
		for len(rows) > 0 && within.Err() == nil {
			n := lookOf(rows)
			if err := a.look(ctx, st, rows[:n], pace); err != nil { // to its own end
				failed = err
			}
			rows = rows[n:]
		}
		return within.Err()
	}
	for _, step := range []adoption{a.lookAgain, a.readOn} {
		within, cancel := context.WithTimeout(ctx, adoptTimeout/2)
		err := step(within, st, look)
		cancel()
		if err != nil && denied(failed) == nil {
			failed = err
		}
	}
	if err := a.writeLow(ctx, st); err != nil {
		return err
	}
	return failed
}

// adoption is a step of a turn at a stream. It begins nothing once ctx has ended.
type adoption func(ctx context.Context, st *adopted, look lookAt) error

// lookAt looks at rows of a stream. Its error is that of ctx.
type lookAt func(ctx context.Context, rows []journal.StreamRow, pace *rate.Limiter) error

// lookAgain looks at the rows that are due, those first that have been so for longest.
func (a *Adopter) lookAgain(ctx context.Context, st *adopted, look lookAt) error {
	for due := st.due(time.Now()); len(due) > 0 && a.more.Tokens() > 0; due = due[min(len(due), adoptRows):] {
		seqs := slices.Sorted(slices.Values(due[:min(len(due), adoptRows)]))
		rows, err := journal.ReadRows(ctx, a.Looker.Store, st.stream.ID, seqs)
		if err != nil {
			return err
		}
		for _, seq := range seqs {
			if !slices.ContainsFunc(rows, func(r journal.StreamRow) bool { return r.Seq == seq }) {
				delete(st.rows, seq) // collected
			}
		}
		if err := look(ctx, rows, a.more); err != nil {
			return err
		}
	}
	return nil
}

// readOn looks at the rows of a stream that were not read yet, as far as the pace goes.
func (a *Adopter) readOn(ctx context.Context, st *adopted, look lookAt) error {
	pace := a.first
	if !st.ended && !st.fresh {
		pace = a.more
	}
	room := func() bool { return a.remembered(st.ended) < maxUnsettled && pace.Tokens() > 0 }
	if time.Now().Before(st.more) || !room() {
		return nil
	}
	for rows, err := range journal.ReadStream(ctx, a.Looker.Store, st.stream.ID, st.next, adoptRows) {
		if err == nil {
			err = look(ctx, rows, pace)
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

// due is the numbers of rows to look at again, in the order in which they became due.
func (st *adopted) due(now time.Time) (seqs []uint64) {
	for seq, row := range st.rows {
		if !now.Before(row.due) {
			seqs = append(seqs, seq)
		}
	}
	slices.SortFunc(seqs, func(x, y uint64) int { return st.rows[x].due.Compare(st.rows[y].due) })
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
	st.next, st.rows = st.stream.Low, map[uint64]*unsettled{}
}

// lookOf is how many of rows, of which there are some, belong to one look: lookRows bounds what
// they name, but for the first.
func lookOf(rows []journal.StreamRow) (n int) {
	for named := 0; n < len(rows); n++ {
		for _, e := range rows[n].Entries {
			named += len(e.Rows)
		}
		if n > 0 && named > lookRows {
			break
		}
	}
	return n
}

// look looks at the entries of some rows of a stream. An error concerns some of them: what could
// not be looked at, or not in time, is not settled and rests like what was.
func (a *Adopter) look(ctx context.Context, st *adopted, rows []journal.StreamRow, pace *rate.Limiter) error {
	var items []*Item
	var of []int
	now, named, own := time.Now(), len(rows), a.own.Own.Owns(st.stream.ID)
	for i, row := range rows {
		read := now
		if u := st.rows[row.Seq]; u != nil {
			read = u.read
		}
		for _, e := range row.Entries {
			items = append(items, &Item{Entry: e, Session: st.stream.Session, Own: own, Alive: !st.ended, Read: read})
			of = append(of, i)
			named += len(e.Rows)
		}
	}
	spend(pace, now, named)
	done, err := a.Looker.Look(ctx, items)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	left, found, progress := make([][]journal.Entry, len(rows)), make([]Backlog, len(rows)), make([]bool, len(rows))
	for j, ok := range done {
		if i, it := of[j], items[j]; !ok {
			left[i], found[i] = append(left[i], it.Entry), found[i].with(Backlog{it.Notified, it.Taken, it.Expired})
			progress[i] = progress[i] || it.Progress
		}
	}
	var stale []uint64
	var entries []journal.Entry
	for i, row := range rows {
		u := a.looked(st, row.Seq, len(left[i]) > 0, progress[i], now)
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
			delete(st.rows, seq)
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

// looked notes that a row was looked at, whether anything is left of it, and whether the look led
// to something; nil: nothing is left.
func (a *Adopter) looked(st *adopted, seq uint64, left, progress bool, asked time.Time) *unsettled {
	st.next = max(st.next, seq+1)
	if !left {
		delete(st.rows, seq)
		return nil
	}
	u := st.rows[seq]
	if u == nil {
		u = &unsettled{read: asked}
		st.rows[seq] = u
	}
	if progress {
		u.looks = 0
	}
	after := rest(u.looks)
	u.due = time.Now().Add(after + rand.N(after/8)) // not always beside the same others
	u.looks++
	return u
}

// rest is how long to rest after so many looks that led to nothing.
func rest(looks int) time.Duration { return min(adoptEvery<<min(looks, 12), rarestAdopt) }

// takeOver appends entries to streams of this client, which looks at them from then on.
func (a *Adopter) takeOver(ctx context.Context, left []journal.Entry) bool {
	ctx, cancel := context.WithTimeout(ctx, a.Looker.timeout())
	defer cancel()
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
