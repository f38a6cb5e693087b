package journal

import (
	"context"
	"iter"
	"slices"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
)

// Lists of unfinished work name each row once, in order, but streams name rows in any order, and
// popular ones often. So a list reads the streams and keeps the smallest names, as many as fit into
// namedBytes, and goes on behind them by reading the streams again. Nearly always once is enough.
//
// Rejected: a list in the order of the streams. It would name rows twice, or remember all of them,
// and a backup could not continue where it was interrupted.

const (
	namedBytes = 16 << 20 // of names that are kept at once
	nameBytes  = 96       // of a name beside its text: two strings and a slot of a map
	namedRows  = 64       // rows of a stream that are read at once
	namedCells = 4096     // ends a page of rows
)

// Selection says which rows of users' tables are wanted. The zero value asks for every row that an
// unsettled entry names.
type Selection struct {
	Table string                                           // "": all
	Range model.Range                                      // of each table; zero: all rows
	Knows func(table string) (bool, error)                 // nil: all
	Wants func(model.JournalEntry, model.JournalName) bool // nil: every row of every entry
	// Leaves a table after the page with so many rows; 0: never.
	Enough int
	Parked bool // also those of parked cells, without asking Wants
	// Gets the end of each stream at its first read; may be nil.
	Ends   map[StreamID]uint64
	Oldest bool // also settled entries, from each stream's first row
}

// NamedPage is some rows of one table, in order.
type NamedPage struct {
	Table string
	Rows  []layout.Row
}

// NamedRows reads the rows that a selection names, as far as q lets anything of them through, in
// the order of tables and keys, each once. It reads no range of a user's table.
func NamedRows(ctx context.Context, s *store.Store, sel Selection, q store.Query) iter.Seq2[NamedPage, error] {
	return func(yield func(NamedPage, error) bool) {
		var page NamedPage
		found := 0 // of page.Table
		for names, err := range Named(ctx, s, sel) {
			if err != nil {
				yield(NamedPage{}, err)
				return
			}
			for len(names) > 0 {
				if names[0].Table != page.Table {
					page, found = NamedPage{Table: names[0].Table}, 0
				}
				n := slices.IndexFunc(names, func(r layout.RowID) bool { return r.Table != page.Table })
				if n < 0 {
					n = len(names)
				}
				for page.Rows, err = range keyed(ctx, s, names[:n], q) {
					if sel.Enough > 0 && found >= sel.Enough {
						break
					}
					if !yield(page, err) || err != nil {
						return
					}
					found += len(page.Rows)
				}
				names = names[n:]
			}
		}
	}
}

// keyed reads rows of one table by their keys, in pages of about namedCells.
func keyed(ctx context.Context, s *store.Store, names []layout.RowID, q store.Query) iter.Seq2[[]layout.Row, error] {
	return func(yield func([]layout.Row, error) bool) {
		keys := ordered.Map(names, func(n layout.RowID) string { return n.Key })
		for chunk := range store.KeyChunks(keys) {
			for len(chunk) > 0 {
				var page []layout.Row
				cells, done := 0, len(chunk)
				err := s.ReadRows(ctx, names[0].Table, store.Rows{Keys: chunk}, q, 0, func(row layout.Row) bool {
					page = append(page, row)
					if cells += len(row.Items); cells < namedCells {
						return true
					}
					at, _ := slices.BinarySearch(chunk, row.Key)
					done = at + 1
					return false
				})
				if !yield(page, err) || err != nil {
					return
				}
				chunk = chunk[done:]
			}
		}
	}
}

// Named streams the names of the rows that a selection asks for, in order, by pages of at most
// namedBytes.
func Named(ctx context.Context, s *store.Store, sel Selection) iter.Seq2[[]layout.RowID, error] {
	return func(yield func([]layout.RowID, error) bool) {
		sel := sel.remembering()
		for from, more := (layout.RowID{}), true; more; {
			kept := smallest{from: from, names: map[layout.RowID]bool{}}
			if err := sel.read(ctx, s, kept.add); err != nil {
				yield(nil, err)
				return
			}
			sel.Ends = nil
			names := kept.sorted()
			from, more = kept.below, kept.below != layout.RowID{}
			if !yield(names, nil) {
				return
			}
		}
	}
}

// read tells add of every row that the selection asks for. A cell whose entry is settled may be
// parked, and so named by the list of parked cells alone, until an entry announces its retry (J2):
// the streams are read before that list, and what was appended meanwhile after it.
func (sel Selection) read(ctx context.Context, s *store.Store, add func(layout.RowID)) error {
	ends := sel.Ends
	if ends == nil {
		ends = map[StreamID]uint64{}
	}
	if err := sel.readOn(ctx, s, ends, add); err != nil || !sel.Parked {
		return err
	}
	for list, err := range ListParked(ctx, s) {
		if err != nil {
			return err
		}
		for _, state := range list {
			if err := sel.add(layout.RowID{Table: state.Cell.Table, Key: state.Cell.Row}, add); err != nil {
				return err
			}
		}
	}
	return sel.readOn(ctx, s, ends, add)
}

// readOn reads the streams from where they ended when it read them last.
func (sel Selection) readOn(ctx context.Context, s *store.Store, ends map[StreamID]uint64, add func(layout.RowID)) error {
	streams, err := Streams(ctx, s)
	if err != nil {
		return err
	}
	for _, st := range streams {
		from := uint64(1)
		if !sel.Oldest {
			from = st.Low
		}
		from = max(from, ends[st.ID])
		for rows, err := range ReadStream(ctx, s, st.ID, from, namedRows) {
			if err != nil {
				return err
			}
			for _, row := range rows {
				from = row.Seq + 1
				if err := sel.names(row.Entries, add); err != nil {
					return err
				}
			}
		}
		ends[st.ID] = from
	}
	return nil
}

// names tells add of the rows of some entries that the selection asks for.
func (sel Selection) names(entries []model.JournalEntry, add func(layout.RowID)) error {
	for _, e := range entries {
		for _, r := range e.Rows {
			if sel.Wants != nil && !sel.Wants(e, r) {
				continue
			}
			if err := sel.add(layout.RowID{Table: r.Table, Key: r.Key}, add); err != nil {
				return err
			}
		}
	}
	return nil
}

// remembering is the selection that asks Knows once about each table.
func (sel Selection) remembering() Selection {
	if knows := sel.Knows; knows != nil {
		known := map[string]bool{}
		sel.Knows = func(table string) (there bool, err error) {
			there, asked := known[table]
			if !asked {
				there, err = knows(table)
				known[table] = there
			}
			return there, err
		}
	}
	return sel
}

// add tells add of a row if it is where the selection looks. What a table held that the schema has
// lost is lost with it.
func (sel Selection) add(n layout.RowID, add func(layout.RowID)) error {
	r := sel.Range
	if sel.Table != "" && n.Table != sel.Table || n.Key < r.Start || r.End != "" && n.Key >= r.End {
		return nil
	}
	if sel.Knows != nil {
		if known, err := sel.Knows(n.Table); err != nil || !known {
			return err
		}
	}
	add(n)
	return nil
}

// smallest keeps the smallest names from a first one on.
type smallest struct {
	from, below layout.RowID // below, if it is set: those from there on did not fit
	names       map[layout.RowID]bool
	bytes       int
}

func (s *smallest) add(n layout.RowID) {
	if n.Compare(s.from) < 0 || s.below != (layout.RowID{}) && n.Compare(s.below) >= 0 || s.names[n] {
		return
	}
	s.names[n] = true
	if s.bytes += bytesOf(n); s.bytes <= namedBytes {
		return
	}
	all := s.sorted()
	for _, n := range all[len(all)/2:] {
		delete(s.names, n)
		s.bytes -= bytesOf(n)
	}
	s.below = all[len(all)/2]
}

func bytesOf(n layout.RowID) int { return nameBytes + len(n.Table) + len(n.Key) }

func (s *smallest) sorted() []layout.RowID {
	all := make([]layout.RowID, 0, len(s.names))
	for n := range s.names {
		all = append(all, n)
	}
	slices.SortFunc(all, layout.RowID.Compare)
	return all
}
