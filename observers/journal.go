package observers

import (
	"context"

	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/settle"
)


// looker looks at entries of the journal, and has this worker run for the notifications that it
// finds, or others where this worker does not take the column.
func (w *Worker) looker() *settle.Looker {
	l := *w.engine.Looker
	l.Found = func() settle.Found {
		asOf := w.queue.asOf()
		return func(ctx context.Context, row layout.Pending, n model.Notification) {
			if w.coverage.taken[Column{n.Cell.Table, n.Cell.Column}] == nil {
				w.engine.Dispatch.Notified(n)
				return
			}
			w.offerFound(ctx, n, &storedStates{asOf, w.statesOf(row)[n.Cell.Column]})
		}
	}
	return &l
}

// surveyed is a survey by the journal in place of a sweep over the tables: what it finds is queued
// here, or counted as left for others.
func (w *Worker) surveyed(ctx context.Context) (left remains, s *settle.Survey, err error) {
	if err := w.flush(ctx); err != nil {
		return left, nil, err
	}
	asOf := w.queue.asOf()
	if s, err = w.engine.Looker.Survey(ctx); err != nil {
		return left, nil, err
	}
	for _, row := range s.Rows {
		w.count(ctx, []layout.Pending{row}, asOf, &left)
	}
	return left, s, nil
}
