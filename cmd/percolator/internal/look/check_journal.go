package look

import (
	"context"

	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/percolator/admin"
)

// streamsChecked is how many streams of the journal are looked at.
const streamsChecked = 1000

func checkJournal(ctx context.Context, x *checker) []health.Finding {
	if x.client.Schema().DisableJournal {
		return health.Fine("the schema does without one")
	}
	list, more, err := admin.New(x.client).JournalStreams(ctx, streamsChecked)
	if err != nil {
		return cannot(err)
	}
	var streams []health.Stream
	for _, s := range list {
		left := health.Stream{ID: s.ID, Ended: s.SessionState == admin.SessionEnded, Corrupt: s.Corrupt}
		if s.Oldest != 0 {
			left.Age = x.now().Sub(s.Oldest.Time())
		}
		streams = append(streams, left)
	}
	out := health.Streams(streams)
	if more {
		out = append(out, health.Unchecked("the streams after the first %d", streamsChecked)...)
	}
	return health.ElseFine(out, "streams: %d, all of them readable and worked off", len(list))
}
