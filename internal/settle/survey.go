package settle

import (
	"context"
	"maps"
	"time"

	"github.com/gopercolator/percolator/internal/journal"
	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/store"
	"github.com/gopercolator/percolator/tso"
)

// A survey reads what the journal says to be unfinished, whoever owns it: the entries of every
// stream from its low position on, and the locks and notifications of their rows. It decides
// nothing. That it saw nothing counts only if nothing was appended meanwhile.

// Survey is what is unfinished.
type Survey struct {
	// Rows are the rows that hold locks or notifications, by their names.
	Rows map[RowID]layout.Pending

	ends map[journal.StreamID]uint64 // behind the last row of each stream
}

// RowID names a row.
type RowID struct{ Table, Key string }

// Survey looks at the rows that unfinished entries name.
func (l *Looker) Survey(ctx context.Context) (*Survey, error) {
	ctx = store.InBackground(ctx)
	s := &Survey{Rows: map[RowID]layout.Pending{}, ends: map[journal.StreamID]uint64{}}
	now, err := l.Clock.Next(ctx)
	if err != nil {
		return nil, err
	}
	streams, err := journal.Streams(ctx, l.Store)
	if err != nil {
		return nil, err
	}
	for _, st := range streams {
		if err := l.surveyStream(ctx, s, st, now); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (l *Looker) surveyStream(ctx context.Context, s *Survey, st journal.Stream, now tso.Timestamp) error {
	from := st.Low
	for more := true; more; {
		rows, rest, err := journal.ReadStream(ctx, l.Store, st.ID, from, adoptRows)
		if err != nil {
			return err
		}
		var items []*Item
		for _, row := range rows {
			from = row.Seq + 1
			for _, e := range row.Entries {
				items = append(items, &Item{Entry: e, Read: time.Now(), decided: true, bound: now})
			}
		}
		known, err := l.knownTables(ctx, items)
		if err != nil {
			return err
		}
		found, err := l.readRows(ctx, items, known, 1)
		if err != nil {
			return err
		}
		maps.Copy(s.Rows, found)
		more = rest
	}
	s.ends[st.ID] = from
	return nil
}

// Moved reports whether anything was appended since the survey.
func (l *Looker) Moved(ctx context.Context, s *Survey) (bool, error) {
	streams, err := journal.Streams(ctx, l.Store)
	if err != nil {
		return false, err
	}
	for _, st := range streams {
		from, known := s.ends[st.ID]
		if !known {
			from = 1
		}
		rows, _, err := journal.ReadStream(ctx, l.Store, st.ID, from, 1)
		if err != nil || len(rows) > 0 {
			return true, err
		}
	}
	return false, nil
}
