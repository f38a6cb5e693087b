package settle

import (
	"context"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// A survey reads what the journal says to be unfinished, in all streams: the entries of every
// stream from its low position on, and the locks and notifications of their rows. It decides
// nothing. That it saw nothing counts only if
//
//	nothing was appended meanwhile
//	the journal is the one that this client knew of: one that is off or was repaired names nothing
//	a second one saw nothing too: a run whose entry is older may have committed after the rows that
//	it writes were read, and before the row it ran for was

// Survey is how far the streams were read.
type Survey struct {
	ends    map[journal.StreamID]uint64 // behind the last row of each stream
	version uint64                      // of the schema, as this client knew it

	// Twice says that entries named rows: that nothing was seen takes a second survey.
	Twice bool
}

// Survey has visit called for the rows that unfinished entries name and that hold locks or
// notifications, each once. Memory: some 16 MiB of names, however many there are.
func (l *Looker) Survey(ctx context.Context, visit func(model.Pending)) (*Survey, error) {
	m, _ := l.Meta.Snapshot()
	s := &Survey{ends: map[journal.StreamID]uint64{}, version: m.Version}
	sel := journal.Selection{
		Knows: func(table string) (bool, error) { return l.Meta.HasTable(ctx, table) },
		Wants: func(model.JournalEntry, model.JournalName) bool { s.Twice = true; return true },
		Ends:  s.ends,
	}
	for page, err := range journal.NamedRows(store.InBackground(ctx), l.Store, sel, store.Pending()) {
		if err != nil {
			return nil, err
		}
		for _, row := range page.Rows {
			visit(layout.DecodePending(page.Table, row))
		}
	}
	return s, nil
}

// Moved reports whether anything was appended since the survey, or the journal may be another one.
func (l *Looker) Moved(ctx context.Context, s *Survey) (bool, error) {
	streams, err := journal.Streams(ctx, l.Store)
	if err != nil {
		return false, err
	}
	for _, st := range streams {
		if more, err := journal.HasRows(ctx, l.Store, st.ID, s.ends[st.ID]); err != nil || more {
			return true, err
		}
	}
	m, err := l.Meta.Refresh(ctx)
	return m.Version != s.version || !l.Meta.ByJournal(), err
}
