package journal

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
)

// inVain is how many looks that led to nothing make a row rest for as long as it can.
const inVain = 8

// A Hurry that comes while a row is being looked at makes it due once more: the worker may have had
// no room for what this look finds.
func TestAHurryDuringALookIsForThatRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, entries := owned(1)
		look := func(d DueRow) {
			o.Found(entries[0], Backlog{Notified: 5}, false)
			o.Looked(d, Outcome{Rows: 2})
		}
		for range inVain {
			look(nextDue(t, o))
		}
		d := nextDue(t, o)
		o.Hurry()
		look(d)
		wantSoon(t, o, look)
		d = nextDue(t, o)
		o.Hurry()
		o.Postponed(d)
		wantSoon(t, o, look)
		wantRested(t, o)
	})
}

// The same with rows that are read: whether they are remembered then or not.
func TestAHurryDuringALookIsForThatPiece(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			o, look := unreadRows(1)
			for range inVain {
				look(nextDue(t, o))
			}
			d := nextDue(t, o)
			o.Hurry()
			o.Limit(limit)
			look(d)
			if len(o.streams["s"].rows) != limit {
				t.Errorf("%d rows are remembered, want %d", len(o.streams["s"].rows), limit)
			}
			wantSoon(t, o, look)
			wantRested(t, o)
		})
	}
}

// What the look at rows that were read has found there is known of those that are remembered: it is
// in the gauges, and a Hurry is for them.
func TestAHurryIsForRowsThatWereRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, look := unreadRows(1)
		for range inVain {
			look(nextDue(t, o))
		}
		o.Limit(1)
		if look(nextDue(t, o)); o.Unsettled().Notified != 5 {
			t.Errorf("unsettled are %+v", o.Unsettled())
		}
		o.Hurry()
		wantSoon(t, o, look)
		wantRested(t, o)
	})
}

// A Hurry while a pass over what is left has begun is for the rows behind it as well: the next pass
// begins with its end, which no Hurry keeps from coming.
func TestAHurryBesideAPassIsForTheRowsBehindIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pieces = 3
		o, look := unreadRows(pieces * pieceRows)
		for range inVain * pieces {
			look(nextDue(t, o))
		}
		d := nextDue(t, o)
		for i := range pieces {
			if first := d.Seqs[0]; first != uint64(i*pieceRows+1) {
				t.Errorf("piece %d begins at %d", i, first)
			}
			o.Hurry()
			look(d)
			d = wantNextSoon(t, o)
		}
		if d.Seqs[0] != 1 {
			t.Errorf("the next piece begins at %d, want 1", d.Seqs[0])
		}
		for range pieces - 1 {
			look(d)
			d = wantNextSoon(t, o)
		}
		look(d)
		wantRested(t, o)
	})
}

// unreadRows is an owner that remembers none of n rows of stream s; look ends a look at some of
// them, which are left with a notification.
func unreadRows(n int) (o *Owner, look func(DueRow)) {
	e := model.JournalEntry{StartTS: 1, Rows: make([]model.JournalName, 1)}
	o = NewOwner()
	o.Limit(0)
	for i := range n {
		o.sent("s", uint64(i+1), []*part{{entry: &e, of: &Append{entry: &e}}})
	}
	return o, func(d DueRow) {
		out := Outcome{Rows: len(d.Seqs)}
		for _, seq := range d.Seqs {
			out.Left = append(out.Left, LeftRow{Seq: seq, Entries: []LeftEntry{{e, Backlog{Notified: 5}, false}}})
		}
		o.Looked(d, out)
	}
}

// nextDue waits for what is due next.
func nextDue(t *testing.T, o *Owner) DueRow {
	t.Helper()
	for started := time.Now(); time.Since(started) < 2*rarestLook; time.Sleep(time.Second / 10) {
		if due := o.Due(time.Now(), 1); len(due) > 0 {
			return due[0]
		}
	}
	t.Fatal("nothing is due")
	return DueRow{}
}

// wantNextSoon is nextDue, which must not take as long as a row rests.
func wantNextSoon(t *testing.T, o *Owner) DueRow {
	t.Helper()
	started := time.Now()
	d := nextDue(t, o)
	if after := time.Since(started); after >= FirstLook {
		t.Errorf("looked at again only after %v", after)
	}
	return d
}

// wantSoon requires a look soon, and makes it.
func wantSoon(t *testing.T, o *Owner, look func(DueRow)) {
	t.Helper()
	look(wantNextSoon(t, o))
}

// wantRested requires that nothing is due at once: a Hurry is for one look.
func wantRested(t *testing.T, o *Owner) {
	t.Helper()
	started := time.Now()
	if nextDue(t, o); time.Since(started) < FirstLook {
		t.Errorf("looked at again after %v", time.Since(started))
	}
}
