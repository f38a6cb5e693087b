package settle

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/percolator/model"
)

// visit is one run at a stream: its rows that are due are looked at, then those that were not read
// yet, and the low position moves. A look that fails, for lack of a right to one table perhaps,
// holds up no other, and those that take long keep no time from the step after theirs.
type visit struct {
	*Adopter
	*adopted
	others int   // unsettled rows that the adopter remembers of others of its kind, dead or not
	failed error // of a look or a step; a refused access is kept
}

// adopt visits a stream.
func (a *Adopter) adopt(ctx context.Context, st *adopted, others int) error {
	v := &visit{Adopter: a, adopted: st, others: others}
	for _, step := range []func(ctx, within context.Context) error{v.lookAgain, v.readOn} {
		within, cancel := context.WithTimeout(ctx, adoptTimeout/2)
		err := step(ctx, within)
		cancel()
		if err != nil && denied(v.failed) == nil {
			v.failed = err
		}
	}
	if err := a.writeLow(ctx, st); err != nil {
		return err
	}
	return v.failed
}

// looks looks at rows of the stream. It starts no look once within has ended, which is its error;
// one that was started has until ctx ends.
func (v *visit) looks(ctx, within context.Context, rows []journal.StreamRow, pace *rate.Limiter) error {
	for len(rows) > 0 && within.Err() == nil {
		n := lookOf(rows)
		if err := v.look(ctx, v.adopted, rows[:n], pace); err != nil {
			v.failed = err
		}
		rows = rows[n:]
	}
	return within.Err()
}

// lookAgain looks at the rows that are due, those first that have been so for longest.
func (v *visit) lookAgain(ctx, within context.Context) error {
	for due := v.due(time.Now()); len(due) > 0 && v.more.Tokens() > 0; due = due[min(len(due), adoptRows):] {
		seqs := slices.Sorted(slices.Values(due[:min(len(due), adoptRows)]))
		rows, err := journal.ReadRows(within, v.Looker.Store, v.stream.ID, seqs)
		if err != nil {
			return err
		}
		for _, seq := range seqs {
			if !slices.ContainsFunc(rows, func(r journal.StreamRow) bool { return r.Seq == seq }) {
				delete(v.rows, seq) // collected
			}
		}
		if err := v.looks(ctx, within, rows, v.more); err != nil {
			return err
		}
	}
	return nil
}

// readOn looks at the rows of the stream that were not read yet, as far as the pace goes.
func (v *visit) readOn(ctx, within context.Context) error {
	pace := v.first
	if v.state == living {
		pace = v.more
	}
	room := func() bool { return v.others+len(v.rows) < maxUnsettled && pace.Tokens() > 0 }
	if time.Now().Before(v.tail.again) || !room() {
		return nil
	}
	for rows, err := range journal.ReadStream(within, v.Looker.Store, v.stream.ID, v.next, adoptRows) {
		if err == nil {
			err = v.looks(ctx, within, rows, pace)
		}
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			v.tail.nothing = 0
		}
		if !room() {
			return nil
		}
	}
	v.through()
	return nil
}

// through is called at the end of the stream. One whose owner is dead gets no more rows, or hardly.
// An owner that lives looks again itself: what was found is forgotten, unless this worker watches.
func (v *visit) through() {
	v.seen()
	switch {
	case v.dead():
		v.tail.again = time.Now().Add(rest(v.tail.nothing))
		v.tail.nothing++
	case !v.Watch.Load():
		v.watch = time.Now().Add(watchEvery)
		v.next, v.rows = v.stream.Low, map[uint64]*unsettled{}
	}
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
	now := time.Now()
	items, named := a.itemsOf(st, rows, now)
	spend(pace, now, named)
	results, err := a.Looker.Look(ctx, items)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var stale []uint64
	var locked journal.Open // of stale
	var entries []model.JournalEntry
	for _, row := range rows {
		left, found := leftOf(row.Entries, results[:len(row.Entries)])
		results = results[len(row.Entries):]
		if u := st.note(row.Seq, left, found, now); u != nil && st.dead() && now.Sub(u.read) > takeOverAfter {
			stale, entries = append(stale, row.Seq), append(entries, left...)
			if !found.Unlocked {
				locked = locked.With(journal.OpenRow(row.Seq))
			}
		}
	}
	if a.takeOver(ctx, entries) {
		for _, seq := range stale {
			delete(st.rows, seq)
		}
		st.open = st.open.With(locked)
	}
	return err
}

// itemsOf is the entries of rows as they are looked at, and how many rows that reads.
func (a *Adopter) itemsOf(st *adopted, rows []journal.StreamRow, now time.Time) (items []Item, named int) {
	named = len(rows)
	owner := OwnerUnknown
	switch {
	case st.dead():
	case a.own.Own.Owns(st.stream.ID):
		owner = OwnerHere
	default:
		owner = OwnerElsewhere
	}
	for _, row := range rows {
		read := now
		if u := st.rows[row.Seq]; u != nil {
			read = u.read
		}
		for _, e := range row.Entries {
			items = append(items, Item{JournalEntry: e, Session: st.stream.Session, Owner: owner, Read: read})
			named += len(e.Rows)
		}
	}
	return items, named
}

// leftOf is the unsettled entries of a row, and what was found of them all.
func leftOf(entries []model.JournalEntry, results []Result) (left []model.JournalEntry, found Result) {
	found.Unlocked = true
	for i, r := range results {
		if !r.Settled {
			found.Unlocked = found.Unlocked && r.Unlocked
			left = append(left, entries[i])
			found.Backlog = found.With(r.Backlog)
			found.Progress = found.Progress || r.Progress
		}
	}
	return left, found
}

// note notes what a look at asked has found of a row; nil: the row is settled.
func (st *adopted) note(seq uint64, left []model.JournalEntry, found Result, asked time.Time) *unsettled {
	st.next = max(st.next, seq+1)
	if len(left) == 0 {
		delete(st.rows, seq)
		return nil
	}
	u := st.rows[seq]
	if u == nil {
		u = &unsettled{read: asked}
		st.rows[seq] = u
	}
	u.found, u.oldest = found.Backlog, 0
	for _, e := range left {
		u.oldest = journal.Earliest(u.oldest, e.StartTS)
	}
	if found.Progress {
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
func (a *Adopter) takeOver(ctx context.Context, left []model.JournalEntry) bool {
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
	if !st.dead() || low <= st.stream.Low {
		return nil
	}
	open := st.stream.Open.With(st.open)
	if err := journal.WriteLow(ctx, a.Looker.Store, map[journal.StreamID]journal.Low{st.stream.ID: {Seq: low, Open: open}}); err != nil {
		return err
	}
	st.stream.Low, st.stream.Open, st.idle.low = low, open, low
	return nil
}
