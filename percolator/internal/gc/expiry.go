package gc

import (
	"context"
	"slices"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// What expires becomes garbage without a commit, so no entry leads to it then (J11):
//
//	file    before an entry goes, each row in which its transaction has put what expires later is
//	        stored under that time, and acknowledged
//	erase   a cycle reads what is stored up to its watermark, and erases in those rows as in those
//	        that entries name; what of them expires later is filed again
//	forget  then what was stored goes, unless something in one of its rows had to stay
//
// An entry that announces rows (J2) stands for all transactions that have written them before.

// expiries is rows of tables by the time at which something in them expires.
type expiries map[tso.Timestamp]map[layout.RowID]bool

func (l expiries) add(at tso.Timestamp, id layout.RowID) {
	if l[at] == nil {
		l[at] = map[layout.RowID]bool{}
	}
	l[at][id] = true
}

// expiresLater notes the rows of an entry that may go to which something has to lead later.
func (x *rowEraser) expiresLater(e model.JournalEntry, later expiries) {
	for _, r := range e.Rows {
		id := layout.RowID{Table: r.Table, Key: r.Key}
		for _, v := range x.rows[id].live {
			if v.startTS == e.StartTS || e.Primary.Row == "" {
				later.add(v.at, id)
			}
		}
	}
}

// file stores rows under the times at which they are to be looked at.
func (x *rowEraser) file(ctx context.Context, later expiries) error {
	byStep := map[tso.Timestamp][]model.JournalName{}
	for at, ids := range later {
		at := journal.ExpiryTime(at)
		for id := range ids {
			byStep[at] = append(byStep[at], model.JournalName{Table: id.Table, Key: id.Key})
		}
	}
	for at, rows := range byStep {
		if err := journal.FileExpiring(ctx, x.e.Store, at, rows); err != nil {
			return err
		}
		if err := x.keep(ctx); err != nil {
			return err
		}
	}
	return nil
}

// eraseExpired erases what has expired up to the watermark.
func (s *collecting) eraseExpired(ctx context.Context) error {
	asked, err := s.e.Clock.Next(ctx)
	if err != nil {
		return err
	}
	all := tallyOf(&s.state.Collection)
	x := newRowEraser(&eraser{s.Collector, s.state.Safepoint, s.keep}, asked, findings{}, &all)
	for list, err := range journal.ReadExpiries(ctx, s.e.Store, x.watermark) {
		if err != nil {
			return s.optional(err)
		}
		if err := x.expired(ctx, list); err != nil {
			return err
		}
	}
	setTally(&s.state.Collection, all)
	return nil
}

// expired erases in the rows that some rows of the journal name.
func (x *rowEraser) expired(ctx context.Context, list []journal.Expiry) error {
	entries := ordered.Map(list, func(l journal.Expiry) journal.StreamRow {
		return journal.StreamRow{Entries: []model.JournalEntry{{Rows: l.Rows}}}
	})
	if err := x.eraseNamed(ctx, entries); err != nil {
		return err
	}
	var done []string
	later := expiries{}
	for i, l := range list {
		if slices.ContainsFunc(l.Rows, func(r model.JournalName) bool {
			return x.rows[layout.RowID{Table: r.Table, Key: r.Key}].kept == allEntries
		}) {
			continue
		}
		done = append(done, l.Key)
		x.expiresLater(entries[i].Entries[0], later)
	}
	if err := x.file(ctx, later); err != nil {
		return err
	}
	_, err := x.e.Meta.Retry(ctx, func(ctx context.Context) (bool, error) {
		return true, journal.EraseRows(ctx, x.e.Store, done)
	})
	if err != nil {
		return err
	}
	return x.keep(ctx)
}
