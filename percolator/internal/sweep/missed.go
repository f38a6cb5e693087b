package sweep

import (
	"context"
	"fmt"
	"slices"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// What a sweep that checks has found counts only if no entry leads to it, and if it is still there
// afterwards: a worker may have dealt with it meanwhile. The streams are read twice, since an entry
// that is appended again moves from one to another.
//
// One limit: when an open transaction may notify a row, whose commit timestamp is not known here,
// all notifications of the row wait for a sweep that meets none.

// namedRows is how many rows of a stream are read at once.
const namedRows = 64

// named says what of a row entries lead to. From the low position of their stream on they are open.
type named struct {
	any      bool                   // one at all names it, which leads to its garbage
	notified bool                   // an open one, for its notifications
	locks    map[tso.Timestamp]bool // transactions with a lock, open or announced
}

// lookAgain deals with those findings that the journal does not lead to.
func (s *sweeping) lookAgain(ctx context.Context) error {
	list := s.found
	s.found = nil
	if len(list) == 0 {
		return nil
	}
	names := map[layout.RowID]*named{}
	for _, f := range list {
		n := &named{locks: map[tso.Timestamp]bool{}}
		for _, l := range f.locks {
			n.locks[l.StartTS] = false
		}
		names[layout.RowID{Table: f.table, Key: f.key}] = n
	}
	for range 2 {
		if err := s.readNames(ctx, names); err != nil {
			return err
		}
	}
	list = slices.DeleteFunc(list, func(f finding) bool { return unnamed(f, names).empty() })
	list, err := s.still(ctx, list)
	if err != nil || len(list) == 0 {
		return err
	}
	if err := s.sameJournal(ctx); err != nil {
		return err
	}
	for i, f := range list {
		list[i] = unnamed(f, names)
	}
	return s.deal(ctx, slices.DeleteFunc(list, finding.empty))
}

// sameJournal makes sure that the journal which is checked was not turned off, or is built again,
// since the sweep began: it lacks entries then, and nothing is missed by it.
func (s *sweeping) sameJournal(ctx context.Context) error {
	m, err := s.e.Meta.Refresh(ctx)
	if err == nil && (m.Journal.Building != s.state.Building || m.Schema.DisableJournal) {
		err = fmt.Errorf("percolator: %w: the journal was turned off, or is built again, since the sweep began", model.ErrConflict)
	}
	return err
}

// unnamed is what of a finding no entry leads to. What came later than the entries were read is for
// the next sweep.
func unnamed(f finding, names map[layout.RowID]*named) finding {
	n := names[layout.RowID{Table: f.table, Key: f.key}]
	f.locks = slices.DeleteFunc(f.locks, func(l model.Lock) bool { led, asked := n.locks[l.StartTS]; return led || !asked })
	if n.notified {
		f.owed = nil
	}
	if n.any {
		f.garbage, f.stray = false, false
	}
	return f
}

// readNames notes which of the rows the streams name.
func (s *sweeping) readNames(ctx context.Context, names map[layout.RowID]*named) error {
	streams, err := journal.AllStreams(ctx, s.e.Store)
	if err != nil {
		return err
	}
	for _, st := range streams {
		for rows, err := range journal.ReadStream(ctx, s.e.Store, st.ID, 1, namedRows) {
			if err != nil {
				return err
			}
			for _, r := range rows {
				for _, e := range r.Entries {
					note(names, e, r.Seq >= st.Low)
				}
			}
			if err := s.keep(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// note notes what an entry leads to. That of a transaction leads to its locks, one that was
// announced has the collector resolve all (J2), and either leads to notifications in rows that it
// flags.
func note(names map[layout.RowID]*named, e model.JournalEntry, open bool) {
	for _, r := range e.Rows {
		n := names[layout.RowID{Table: r.Table, Key: r.Key}]
		if n == nil {
			continue
		}
		n.any = true
		if !open {
			continue
		}
		n.notified = n.notified || r.Observed || r.Weak
		for start := range n.locks {
			n.locks[start] = n.locks[start] || start == e.StartTS || e.Primary == (model.Cell{}) && r.Weak
		}
	}
}

// still reads the rows of findings, and returns what is still there.
func (s *sweeping) still(ctx context.Context, list []finding) (left []finding, err error) {
	lim, err := s.limits(ctx)
	if err != nil {
		return nil, err
	}
	keys := map[string][]string{}
	for _, f := range list {
		keys[f.table] = append(keys[f.table], f.key)
	}
	for table, keys := range keys {
		slices.Sort(keys)
		for chunk := range store.KeyChunks(slices.Compact(keys)) {
			err := s.e.Store.ReadRows(ctx, table, store.Rows{Keys: chunk}, store.History(), 0, func(r layout.Row) bool {
				if f, _ := s.judge(table, r, lim); !f.empty() {
					left = append(left, f)
				}
				return true
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return left, nil
}
