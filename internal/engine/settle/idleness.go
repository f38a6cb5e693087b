package settle

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/internal/engine/journal"
)

// idleness tells that a stream without a session is given up: its adopter has seen no append and no
// move of its low position for two TTLs, by its own monotonic clock (J5). An owner that lives and
// appends again later loses nothing by that.
type idleness struct {
	low, end uint64 // the position, and behind the last row
	since    time.Time
	givenUp  bool
}

// check reports whether the stream is given up. It reads of it only what is new, once in two TTLs.
func (i *idleness) check(ctx context.Context, l *Looker, s journal.Stream) (bool, error) {
	if !i.since.IsZero() && s.Low == i.low && time.Since(i.since) <= 2*l.Config.LockTTL {
		return i.givenUp, nil
	}
	end := max(i.end, s.Low)
	for rows, err := range journal.ReadStream(ctx, l.Store, s.ID, end, adoptRows) {
		if err != nil {
			return false, err
		}
		if len(rows) > 0 {
			end = rows[len(rows)-1].Seq + 1
		}
	}
	*i = idleness{s.Low, end, time.Now(), !i.since.IsZero() && end == i.end && s.Low == i.low}
	return i.givenUp, nil
}
