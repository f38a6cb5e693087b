package console

import (
	"context"

	"github.com/gopercolator/percolator/observers/exportqueue"
)

// letters counts dead letters in a snapshot of now.
func (s clientSource) letters(ctx context.Context) ([]exportqueue.DeadLetterCount, error) {
	now, err := s.c.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return exportqueue.CountDeadLetters(ctx, now, s.c.Schema())
}

// refused is how many dead letters a queue has.
func refused(c exportqueue.DeadLetterCount) string {
	text := plural(c.Letters, "entry", "entries")
	if c.More {
		text = "more than " + text
	}
	return text
}
